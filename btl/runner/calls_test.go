package runner

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/internal/testenv"
)

// pair connects two runners; handle sets the handlers of both modules before they run.
func pair(t *testing.T, handle func(i int, m *btl.Module)) (rs []*Runner, ep *btl.Endpoint) {
	t.Helper()
	rs = openRunners(t, 2, handle)
	ctx := t.Context()
	var name []byte
	if err := rs[1].Do(ctx, func(m *btl.Module) error { name = m.Name(); return nil }); err != nil {
		t.Fatal(err)
	}
	ep, err := rs[0].Connect(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return rs, ep
}

// A callback that waits for the driver waits for itself: it is told so at once, whoever drives.
func TestRunnerCallbackMustNotWait(t *testing.T) {
	var rs []*Runner
	var ready sync.WaitGroup
	ready.Add(1)
	told := make(chan error, 8)
	rs, ep := pair(t, func(i int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(from *btl.Endpoint, _ btl.Tag, _ []byte) {
			ready.Wait()
			r := rs[i]
			ctx := context.Background()
			told <- r.Send(ctx, from, 3, nil)
			told <- r.Do(ctx, func(*btl.Module) error { return nil })
			told <- r.Flush(ctx, from)
			told <- r.Close(ctx)
			if err := r.SendBuffered(ctx, from, 4, []byte("posted")); err != nil {
				t.Errorf("SendBuffered by a handler: %v", err)
			}
		})
		mustHandleTag(t, m, 4, func(*btl.Endpoint, btl.Tag, []byte) { told <- nil })
	})
	ready.Done()
	if err := rs[0].Send(t.Context(), ep, 3, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := <-told; !errors.Is(err, ErrInHandler) {
			t.Errorf("method %d: %v, want ErrInHandler", i, err)
		}
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
}

func TestRunnerForeignEndpoint(t *testing.T) {
	rs, ep := pair(t, nil)
	ctx := t.Context()
	for _, e := range []*btl.Endpoint{nil, ep} {
		_, start := rs[1].Start(ctx, e, 1, nil)
		for i, err := range []error{
			rs[1].Send(ctx, e, 1, nil), rs[1].SendBuffered(ctx, e, 1, nil), rs[1].Put(ctx, e, nil, 0, 0),
			rs[1].Flush(ctx, e), start,
		} {
			if !errors.Is(err, btl.ErrEndpoint) {
				t.Errorf("method %d: %v, want ErrEndpoint", i, err)
			}
		}
	}
}

func TestRunnerPost(t *testing.T) {
	const posters, each = 4, 500
	var got atomic.Int64
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
			got.Add(int64(len(data)))
		})
	})
	var all sync.WaitGroup
	sent := 0
	for p := range posters {
		sent += each * (1 + 1000*p)
		all.Go(func() {
			data := make([]byte, 1+1000*p)
			for range each {
				if err := rs[0].SendBuffered(t.Context(), ep, 3, data); err != nil {
					t.Error(err)
				}
				clear(data)
			}
		})
	}
	all.Wait()
	if err := rs[0].Flush(t.Context(), ep); err != nil {
		t.Fatal(err)
	}
	if got.Load() != int64(sent) {
		t.Errorf("%d bytes delivered, %d posted", got.Load(), sent)
	}
}

// Pendings overlap: none is waited for before all have begun.
func TestRunnerStart(t *testing.T) {
	var mu sync.Mutex
	got := map[byte]int{}
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
			mu.Lock()
			defer mu.Unlock()
			if bytes.Count(data, data[:1]) == len(data) {
				got[data[0]]++
			}
		})
	})
	var pending []Pending
	for i := range byte(20) {
		p, err := rs[0].Start(t.Context(), ep, 3, bytes.Repeat([]byte{i}, 50_000))
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, p)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, p := range pending {
		if err := p.Wait(ended); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		} else if err == nil {
			continue // it had ended
		}
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != len(pending) {
		t.Errorf("%d whole messages, %d were sent", len(got), len(pending))
	}
}

// A Pending that was waited for tells so, whatever its call is used for by then.
func TestPendingTwice(t *testing.T) {
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	start := func(data []byte) Pending {
		t.Helper()
		p, err := rs[0].Start(t.Context(), ep, 3, data)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const size = 1 << 20
	first := start([]byte{1})
	if err := first.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 100 { // until the pool gives the call out again, if it does
		second := start(make([]byte, size))
		if !first.Done() {
			t.Error("what has been waited for is not done")
		}
		if err := first.Wait(t.Context()); !errors.Is(err, btl.ErrState) {
			t.Fatalf("waited for once more: %v", err)
		}
		if err := second.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := (Pending{}).Wait(t.Context()); !errors.Is(err, btl.ErrState) {
		t.Errorf("a Pending of nothing: %v", err)
	}
}

// StartPut writes as Put does, and tells that it is refused.
func TestRunnerStartPut(t *testing.T) {
	rs, ep := pair(t, nil)
	mem := make([]byte, 100_000)
	var region *btl.Region
	err := rs[1].Do(t.Context(), func(m *btl.Module) (err error) {
		region, err = m.Expose(mem, btl.RemoteWrite)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wait := func(h btl.Handle) error {
		p, err := rs[0].StartPut(t.Context(), ep, bytes.Repeat([]byte{7}, len(mem)), h, 0)
		if err != nil {
			t.Fatal(err)
		}
		return p.Wait(t.Context())
	}
	if err := wait(region.Handle()); err != nil {
		t.Fatal(err)
	}
	err = rs[1].Do(t.Context(), func(*btl.Module) error {
		if bytes.Count(mem, []byte{7}) != len(mem) {
			t.Error("it has not written all")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := wait(region.Handle() + 1<<40); !errors.Is(err, btl.ErrRemoteAccess) {
		t.Errorf("a handle of no region: %v", err)
	}
}

// echoing answers tag 1 by tag 2, and gives the answers' numbers to a function.
func echoing(t *testing.T, answered func(id uint64)) (*Runner, *btl.Endpoint) {
	t.Helper()
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 1, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
			if f, err := ep.Alloc(2, len(data)); err == nil {
				copy(f.Bytes(), data)
				if _, err := ep.Send(ep.Now(), f); err != nil {
					t.Error(err)
				}
			}
		})
		mustHandleTag(t, m, 2, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
			answered(binary.LittleEndian.Uint64(data))
		})
	})
	return rs[0], ep
}

// TestRunnerAwaitAndCancel has many goroutines ask, some of whom do not wait for the answer: each
// that waits gets its own, and nothing is left behind.
func TestRunnerAwaitAndCancel(t *testing.T) {
	const callers, each = 16, 150
	wakers := map[uint64]Waker{} // used only with the module
	r, ep := echoing(t, func(id uint64) {
		w := wakers[id]
		delete(wakers, id)
		w.Wake(nil)
		w.Wake(errors.New("the second call counts"))
	})
	seed := testenv.Seed(t, 1)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(c)))
			for i := range each {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if rng.IntN(3) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(200))*time.Microsecond)
				}
				id := uint64(c*each + i + 1)
				err := r.Await(ctx, func(m *btl.Module, w Waker) error {
					var q [8]byte
					binary.LittleEndian.PutUint64(q[:], id)
					if err := ep.SendImmediate(m.Now(), 1, q[:]); err != nil {
						return err
					}
					wakers[id] = w
					return nil
				})
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("caller %d, question %d: %v", c, i, err)
				}
			}
		})
	}
	all.Wait()
	if n := r.turn.blocked.Load(); n != 0 {
		t.Errorf("%d calls are still counted as blocked", n)
	}
}

// TestRunnerAllocations: a question and its answer allocate nothing, nor does SendBuffered.
func TestRunnerAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	var waker Waker
	r, ep := echoing(t, func(uint64) { waker.Wake(nil) })
	ctx := context.Background()
	q := make([]byte, 8)
	ask := func(m *btl.Module, w Waker) error {
		waker = w
		return ep.SendImmediate(m.Now(), 1, q)
	}
	call := func() {
		if err := r.Await(ctx, ask); err != nil {
			t.Error(err)
		}
	}
	call()
	if n := testing.AllocsPerRun(500, call); n >= 1 {
		t.Errorf("%v allocations a question", n)
	}
	post := func() {
		if err := r.SendBuffered(ctx, ep, 1, q); err != nil {
			t.Error(err)
		}
		call() // A SendBuffered that finds the token taken queues its call, and does not wait.
	}
	if n := testing.AllocsPerRun(500, post); n >= 1 {
		t.Errorf("%v allocations a SendBuffered", n)
	}
}

// TestWakerOutlivesItsCall: a Waker that is called again does nothing, though what it named serves
// another Runner by then. The race detector looks on.
func TestWakerOutlivesItsCall(t *testing.T) {
	var old []Waker // only of the first Runner
	r, _ := echoing(t, func(uint64) {})
	other, _ := echoing(t, func(uint64) {})
	var all sync.WaitGroup
	all.Go(func() {
		for range 300 {
			if err := r.Do(t.Context(), func(*btl.Module) error {
				for _, o := range old {
					o.Wake(errors.New("of another call"))
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	})
	for range 300 {
		for _, each := range []*Runner{r, other, other} { // one pool serves all
			if err := each.Await(t.Context(), func(_ *btl.Module, w Waker) error {
				if each == r {
					old = append(old, w)
				}
				w.Wake(nil)
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	}
	all.Wait()
}
