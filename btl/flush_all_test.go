package btl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// newStar is a module with so many peers, of which it knows the endpoints.
func newStar(t *testing.T, peers int, cfg Config) (l *lab, eps []*Endpoint) {
	t.Helper()
	l = newLab(t, mem.Config{}, 1+peers, cfg)
	for i := range peers {
		l.mods[1+i].Handle(1, func(*Endpoint, Tag, []byte) {})
		eps = append(eps, l.connect(0, 1+i))
	}
	l.settle(time.Second)
	return l, eps
}

// cutOff has one module's packets lost, from it and to it.
func (l *lab) cutOff(i int) {
	addr := l.mods[i].cmd.name
	data := l.mods[i].data.name
	l.net.SetFilter(func(from, to, _ []byte) mem.Verdict {
		for _, a := range [][]byte{from, to} {
			if slices.Equal(a, addr) || slices.Equal(a, data) {
				return mem.Drop
			}
		}
		return mem.Deliver
	})
}

// A flush of all endpoints is over when the slowest one's is, and not before an earlier one.
func TestModuleFlush(t *testing.T) {
	l, eps := newStar(t, 3, smallConfig())
	told := ""
	flush := func(name string) {
		l.mods[0].Flush(l.now, func(err error) {
			if told += name; err != nil {
				t.Errorf("flush %s: %v", name, err)
			}
		})
	}
	flush("a") // of nothing
	if told != "" {
		t.Error("called inside Flush")
	}
	l.until("nothing is flushed", time.Microsecond, 2*time.Microsecond, func() bool {
		return told == "a"
	})
	l.cutOff(3)
	for i, size := range []int{8, 100_000, 8} {
		sendOrFail(t, eps[i], 1, make([]byte, size))
	}
	flush("b")
	flush("c")
	l.until("all but one are acknowledged", 20*time.Microsecond, time.Second, func() bool {
		return eps[0].snd.InFlight()+eps[1].snd.InFlight() == 0 && !eps[1].waiting()
	})
	if told != "a" {
		t.Errorf("told %q while a peer has not answered", told)
	}
	if err := l.mods[0].CheckIdle(); err == nil {
		t.Error("idle while flushes wait")
	}
	l.calm()
	l.until("all are flushed", 100*time.Microsecond, 5*time.Second, func() bool {
		return told == "abc"
	})
	l.settle(time.Second)
	l.wantIdle(0)
}

// What has failed is told, by name, for each endpoint, to the call that waits, or to the next one
// if none does; and once.
func TestModuleFlushFailures(t *testing.T) {
	cfg := smallConfig()
	cfg.PeerTimeout = 200 * time.Millisecond
	l, eps := newStar(t, 3, cfg)
	m := l.mods[0]
	flush := func() error {
		told := errPending
		m.Flush(l.now, func(err error) { told = err })
		l.until("flushed", 100*time.Microsecond, 5*time.Second, func() bool {
			return !errors.Is(told, errPending)
		})
		return told
	}
	l.cutOff(3)
	sendOrFail(t, eps[2], 1, []byte("lost"))
	sendOrFail(t, eps[1], 2, []byte("nobody handles it"))
	sendOrFail(t, eps[0], 1, []byte("fine"))
	name := eps[2].RemoteName()
	err := flush()
	if !errors.Is(err, ErrPeerDead) || !errors.Is(err, ErrNoHandler) ||
		!strings.Contains(fmt.Sprint(err), name) || errors.Is(err, ErrClosed) {
		t.Errorf("a dead peer and a refusal: %v", err)
	}
	if err := flush(); err != nil {
		t.Errorf("told again: %v", err)
	}
	l.cutOff(2)
	sendOrFail(t, eps[1], 1, []byte("lost, too"))
	l.until("the peer is dead", time.Millisecond, 5*time.Second, func() bool {
		return eps[1].Err() != nil
	})
	if err := flush(); !errors.Is(err, ErrPeerDead) {
		t.Errorf("a peer that has died before: %v", err)
	}
	eps[0].Abort() // with nothing under way
	if err := flush(); err != nil {
		t.Errorf("an endpoint that has ended in order: %v", err)
	}
}

// The error of a call has a bound, however many peers have gone.
func TestModuleFlushFailuresBounded(t *testing.T) {
	const peers = flushFailuresMax + 5
	cfg := smallConfig()
	cfg.PeersMax = 2 * peers
	l, eps := newStar(t, peers, cfg)
	l.cut()
	for _, ep := range eps {
		sendOrFail(t, ep, 1, []byte("lost"))
		ep.Abort()
	}
	var told error
	l.mods[0].Flush(l.now, func(err error) { told = err })
	l.step(time.Microsecond)
	if n := strings.Count(fmt.Sprint(told), ErrClosed.Error()); n != flushFailuresMax ||
		!strings.Contains(fmt.Sprint(told), fmt.Sprint(peers-flushFailuresMax)) {
		t.Errorf("%d peers are named: %v", n, told)
	}
}

// An owner that pulls is told without an endpoint; a module that closes tells who waits, and a
// closed one says so at once.
func TestModuleFlushEnds(t *testing.T) {
	l, eps := newStar(t, 2, smallConfig())
	m := l.mods[0]
	l.cut()
	sendOrFail(t, eps[0], 1, []byte("x"))
	var told []error
	m.Flush(l.now, func(err error) { told = append(told, err) })
	m.Flush(l.now, nil)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	m.Flush(l.now, func(err error) { told = append(told, err) })
	if len(told) != 2 || !errors.Is(told[0], ErrClosed) || !errors.Is(told[1], ErrClosed) {
		t.Errorf("of a module that closes: %v", told)
	}

	l, _ = newStar(t, 2, smallConfig())
	m = l.mods[0]
	m.PullCompletions(true)
	m.Flush(l.now, nil)
	l.step(time.Microsecond)
	got := make([]Completion, 4)
	if n := m.Pull(got); n != 1 || got[0].Kind != CompletionFlush || got[0].Endpoint != nil ||
		got[0].Err != nil {
		t.Errorf("pulled %+v", got[:n])
	}
}

// In the steady state a flush of all endpoints allocates nothing.
func TestModuleFlushAllocs(t *testing.T) {
	b := newBench(t, mem.Config{}, 3, Config{})
	flushed := 0
	fn := func(error) { flushed++ }
	eps := []*Endpoint{b.connect(0, 1), b.connect(0, 2)}
	for _, m := range b.mods {
		mustHandleTag(t, m, 1, func(*Endpoint, Tag, []byte) {})
	}
	op := func() {
		want := flushed + 2
		for range 2 {
			for _, ep := range eps {
				if err := ep.SendImmediate(b.now, 1, nil); err != nil {
					t.Fatal(err)
				}
			}
			b.mods[0].Flush(b.now, fn)
		}
		for flushed != want {
			b.now = b.now.Add(5 * time.Microsecond)
			for _, m := range b.mods {
				m.Progress(b.now)
			}
		}
	}
	for range 200 {
		op()
	}
	if n := testing.AllocsPerRun(200, op); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A Runner's FlushAll is behind what SendBuffered has accepted, though that is refused as yet.
func TestRunnerFlushAllBehindPosts(t *testing.T) {
	arrived := 0
	rs, ep := pair(t, func(i int, m *Module) {
		mustHandleTag(t, m, 3, func(*Endpoint, Tag, []byte) { arrived++ })
	})
	ctx := t.Context()
	var h Handle
	err := rs[1].Do(ctx, func(m *Module) error {
		r, err := m.Expose(make([]byte, 64), RemoteAll)
		h = r.Handle()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rs[0].FlushAll(ctx); err != nil {
		t.Fatal(err)
	}
	goOn := standStill(t, rs[1])
	const more = 3
	done := make(chan error, asksMax+more)
	for range asksMax + more {
		go func() { done <- rs[0].Get(ctx, ep, make([]byte, 16), h, 0) }()
	}
	refused := func(n int) func() bool {
		return func() bool {
			got := 0
			err := rs[0].Do(ctx, func(*Module) error { got = rs[0].refused.count; return nil })
			return err == nil && got == n
		}
	}
	eventually(t, "the gets that are too many", refused(more))
	posted := make(chan error, 1)
	go func() { posted <- rs[0].SendBuffered(ctx, ep, 3, []byte("post")) }()
	eventually(t, "the post", refused(more+1))
	flushed := make(chan error, 1)
	go func() { flushed <- rs[0].FlushAll(ctx) }()
	eventually(t, "the flush", refused(more+2))
	goOn()
	for _, ended := range []chan error{flushed, posted} {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for range asksMax + more {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	err = rs[1].Do(ctx, func(*Module) error {
		if arrived != 1 {
			t.Errorf("%d messages have arrived", arrived)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
