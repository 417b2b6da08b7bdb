package share

import (
	"math/rand/v2"
	"testing"

	"gobtl/internal/testenv"
)

// The endpoint of a host with one endpoint is examined in every other look, while the resource
// changes again and again, and the many endpoints of another host one after the other.
func TestWaitersOfHosts(t *testing.T) {
	const many, rounds = 50, 100
	var w Waiters[int]
	var crowd, other Host
	for i := range many {
		w.Push(&crowd, i)
	}
	w.Push(&other, many)
	var looks [many + 1]int
	for range rounds {
		w.Renew()
		for range 4 {
			w.Look(func(ep int) bool { looks[ep]++; return true })
		}
	}
	for i, n := range looks[:many] {
		if n < 2*rounds/many || n > 4*rounds/many+1 {
			t.Errorf("endpoint %d of the crowd was examined %d times", i, n)
		}
	}
	if n := looks[many]; n < rounds {
		t.Errorf("the endpoint of the other host was examined %d times in %d rounds", n, rounds)
	}
}

// After each change all endpoints are examined once, then none is due, and a further look examines
// one endpoint again.
func TestWaitersModel(t *testing.T) {
	const hosts, eps = 5, 20
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 1))
	var w Waiters[int]
	var host [hosts]Host
	var waits, due [eps]bool
	count := func(all *[eps]bool) (n int) {
		for _, is := range all {
			if is {
				n++
			}
		}
		return n
	}
	for step := range 50_000 {
		switch ep := random.IntN(eps); random.IntN(6) {
		case 0:
			if !waits[ep] {
				w.Push(&host[ep%hosts], ep)
				waits[ep] = true
				due = waits
			}
		case 1:
			w.Renew()
			due = waits
		default:
			before, room := w.Len(), random.IntN(4) == 0
			looked := -1
			w.Look(func(ep int) bool { looked = ep; return !room })
			switch {
			case looked < 0 && before > 0, looked >= 0 && !waits[looked]:
				t.Fatalf("step %d: a look at %d, while %d wait", step, looked, before)
			case looked >= 0 && count(&due) > 0 && !due[looked]:
				t.Fatalf("step %d: a look at %d, which is not due, before %v", step, looked, due)
			case looked >= 0:
				due[looked], waits[looked] = false, !room
			}
		}
		listed := 0
		w.Each(func(ep int) {
			if listed++; !waits[ep] {
				t.Fatalf("step %d: endpoint %d is listed", step, ep)
			}
		})
		if n := count(&waits); w.Len() != n || listed != n || w.Due() != (count(&due) > 0) {
			t.Fatalf("step %d: %d wait, %d listed, want %d; due is %v", step, w.Len(), listed, n, w.Due())
		}
	}
	for w.Len() > 0 {
		w.Look(func(int) bool { return false })
	}
	if len(w.hosts) != 0 || w.due.last != nil || w.done.last != nil {
		t.Errorf("%d hosts are left", len(w.hosts))
	}
}

// A host that waits, again and again, needs no new memory.
func TestWaitersMemory(t *testing.T) {
	var w Waiters[int]
	var h Host
	waits := func(int) bool { return false }
	if n := testing.AllocsPerRun(100, func() { w.Push(&h, 1); w.Look(waits) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
