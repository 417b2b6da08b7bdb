package byhost

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gobtl/internal/testenv"
)

// A host with many members gets as many turns as a host with one member.
func TestTurnsByHost(t *testing.T) {
	var turns Turns[string]
	for range 40 {
		m := &Member[string]{What: "many"}
		turns.Enter(m, "many")
		turns.Wait(m)
	}
	one := &Member[string]{What: "one"}
	turns.Enter(one, "one")
	turns.Wait(one)
	got := map[string]int{}
	for range 100 {
		m := turns.First()
		got[m.What]++
		turns.Done(m, true)
	}
	if got["many"] != 50 || got["one"] != 50 {
		t.Errorf("%v, want 50 turns each", got)
	}
}

// model is a slow Turns: the waiting members of each host, and the hosts, in the order of turns.
type model struct {
	order   []string
	waiting map[string][]int
}

func (m *model) wait(host string, id int) {
	if len(m.waiting[host]) == 0 {
		m.order = append(m.order, host)
	}
	m.waiting[host] = append(m.waiting[host], id)
}

func (m *model) remove(host string, id int) {
	i := slices.Index(m.waiting[host], id)
	m.waiting[host] = slices.Delete(m.waiting[host], i, i+1)
	if len(m.waiting[host]) == 0 {
		m.order = slices.DeleteFunc(m.order, func(h string) bool { return h == host })
	}
}

func (m *model) done(host string, id int, more bool) {
	m.remove(host, id)
	if more {
		m.wait(host, id)
	}
	m.order = slices.DeleteFunc(m.order, func(h string) bool { return h == host })
	if len(m.waiting[host]) > 0 {
		m.order = append(m.order, host)
	}
}

// Turns does what the model does.
func TestTurnsModel(t *testing.T) {
	const hosts, ids = 4, 12
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 1))
	var turns Turns[int]
	want := model{waiting: map[string][]int{}}
	var all [ids]Member[int]
	for i := range all {
		all[i].What = i
	}
	for step := range 20_000 {
		id := random.IntN(ids)
		m, host := &all[id], fmt.Sprint(id%hosts)
		more := random.IntN(2) == 0
		waits := slices.Contains(want.waiting[host], id)
		switch kind := random.IntN(5); {
		case m.of == nil:
			turns.Enter(m, host)
		case kind == 0:
			turns.Leave(m)
			if waits {
				want.remove(host, id)
			}
		case kind == 1:
			turns.Remove(m)
			if waits {
				want.remove(host, id)
			}
		case kind == 2 && waits:
			turns.Done(m, more)
			want.done(host, id, more)
		case kind == 3 && len(want.order) > 0:
			first := turns.First()
			host = want.order[0]
			if first.What != want.waiting[host][0] {
				t.Fatalf("step %d: the turn of %d, want %d", step, first.What, want.waiting[host][0])
			}
			turns.Done(first, more)
			want.done(host, first.What, more)
		default:
			turns.Wait(m)
			if !waits {
				want.wait(host, id)
			}
		}
		compare(t, &turns, &want)
	}
}

func compare(t *testing.T, turns *Turns[int], want *model) {
	t.Helper()
	count := 0
	h := turns.order.First()
	for _, name := range want.order {
		if h == nil || h.name != name {
			t.Fatalf("the order of hosts differs from %v", want.order)
		}
		m := h.waiting.First()
		for _, id := range want.waiting[name] {
			if m == nil || m.What != id {
				t.Fatalf("the order of host %s differs from %v", name, want.waiting[name])
			}
			m = m.at.Next()
			count++
		}
		if m != nil {
			t.Fatalf("host %s has more than %v", name, want.waiting[name])
		}
		h = h.at.Next()
	}
	if h != nil || turns.Waiting() != count || (turns.First() == nil) != (count == 0) {
		t.Fatalf("%d members wait, want %d", turns.Waiting(), count)
	}
}

// A host without members is forgotten, and the next host uses its memory.
func TestHostsForgotten(t *testing.T) {
	var turns Turns[int]
	var m, other Member[int]
	turns.Enter(&m, "a")
	turns.Enter(&other, "a")
	turns.Wait(&m)
	if turns.Members("a") != 2 || turns.Members("b") != 0 {
		t.Errorf("%d members of a, %d of b", turns.Members("a"), turns.Members("b"))
	}
	turns.Leave(&m)
	turns.Leave(&other)
	if len(turns.hosts) != 0 || turns.Waiting() != 0 || turns.First() != nil {
		t.Errorf("%d hosts are left, %d members wait", len(turns.hosts), turns.Waiting())
	}
	if n := testing.AllocsPerRun(100, func() {
		turns.Enter(&m, "b")
		turns.Wait(&m)
		turns.Done(&m, false)
		turns.Leave(&m)
	}); n != 0 {
		t.Errorf("a host that comes and goes costs %v allocations", n)
	}
}
