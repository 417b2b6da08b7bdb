package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/mem"
)

// openRunners starts n runners on one network.
func openRunners(t *testing.T, n int, handle func(i int, m *btl.Module)) []*Runner {
	t.Helper()
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	var rs []*Runner
	for i := range n {
		// On a slow machine a test may hold a peer still for longer than the default allows.
		m := b.open(btl.Config{PeerTimeout: time.Minute})
		if handle != nil {
			handle(i, m)
		}
		rs = append(rs, New(m, Config{}, nil))
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		for i, r := range rs {
			if err := r.Close(ctx); err != nil {
				t.Errorf("runner %d: %v", i, err)
			}
		}
	})
	return rs
}

// A call with a nil context is refused, and nothing has begun.
func TestRunnerNilContext(t *testing.T) {
	rs := openRunners(t, 2, nil)
	r := rs[0]
	ep, err := r.Connect(t.Context(), rs[1].m.Name())
	if err != nil {
		t.Fatal(err)
	}
	pending, err := r.Start(t.Context(), ep, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	var none context.Context
	second := func(_ any, err error) error { return err }
	began := false
	begin := func(*btl.Module) error { began = true; return nil }
	beginAwait := func(*btl.Module, Waker) error { began = true; return nil }
	for what, err := range map[string]error{
		"Do":           r.Do(none, begin),
		"DoFor":        r.DoFor(none, ep, begin),
		"Await":        r.Await(none, beginAwait),
		"AwaitFor":     r.AwaitFor(none, ep, beginAwait),
		"Connect":      second(r.Connect(none, rs[1].m.Name())),
		"Dial":         second(r.Dial(none, "mem")),
		"Send":         r.Send(none, ep, 1, nil),
		"SendBuffered": r.SendBuffered(none, ep, 1, nil),
		"Put":          r.Put(none, ep, nil, 0, 0),
		"PutNotice":    r.PutNotice(none, ep, nil, 0, 0, 1, nil),
		"Get":          r.Get(none, ep, nil, 0, 0),
		"Atomic":       second(r.Atomic(none, ep, btl.Atomic{})),
		"Flush":        r.Flush(none, ep),
		"Start":        second(r.Start(none, ep, 1, nil)),
		"StartPut":     second(r.StartPut(none, ep, nil, 0, 0)),
		"Wait":         pending.Wait(none),
		"Close":        r.Close(none),
	} {
		if !errors.Is(err, btl.ErrContext) {
			t.Errorf("%s: %v, want ErrContext", what, err)
		}
	}
	if began {
		t.Error("a call without a context has begun")
	}
	if err := pending.Wait(t.Context()); !errors.Is(err, btl.ErrNoHandler) {
		t.Errorf("what went on: %v", err)
	}
}

func TestRunnerManyGoroutines(t *testing.T) {
	const senders, messages = 8, 50
	var mu sync.Mutex
	seen := map[string]int{}
	rs := openRunners(t, 2, func(i int, m *btl.Module) {
		m.Handle(3, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
			mu.Lock()
			seen[string(data)]++
			mu.Unlock()
		})
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var name []byte
	if err := rs[1].Do(ctx, func(m *btl.Module) error { name = m.Name(); return nil }); err != nil {
		t.Fatal(err)
	}
	ep, err := rs[0].Connect(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range messages {
				if err := rs[0].Send(ctx, ep, 3, fmt.Appendf(nil, "%d/%d", s, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := rs[0].Flush(ctx, ep); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != senders*messages {
		t.Errorf("%d different messages arrived, %d were sent", len(seen), senders*messages)
	}
	for msg, n := range seen {
		if n != 1 {
			t.Errorf("%s arrived %d times", msg, n)
		}
	}
	eventually(t, "all delivered in the counters", func() bool { // which are told now and then
		s := rs[1].Stats()
		return s.Get(btl.CntDelivered) == senders*messages
	})
}

func TestRunnerErrors(t *testing.T) {
	rs := openRunners(t, 1, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := rs[0].Connect(ctx, []byte("nonsense")); !errors.Is(err, btl.ErrBadName) {
		t.Errorf("connect to nonsense: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	err := rs[0].Do(ended, func(*btl.Module) error { return nil })
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Do with a context that has ended: %v", err)
	}
	if err := rs[0].Close(ctx); err != nil {
		t.Error(err)
	}
	if err := rs[0].Do(ctx, func(*btl.Module) error { return nil }); !errors.Is(err, btl.ErrClosed) {
		t.Errorf("Do after Close: %v", err)
	}
}

// A Close whose context has ended already still ends the loop.
func TestRunnerCloseCancelled(t *testing.T) {
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	r := New(b.open(btl.Config{}), Config{}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := r.Close(context.Background()); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// When Send returns, the caller may change its memory, also when the context ended first, unless
// the error is ErrInUse. The race detector sees it if not.
func TestRunnerSendLetsGoOfMemory(t *testing.T) {
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	ctx := t.Context()
	data := make([]byte, 1<<18)
	for i := range 100 {
		short, cancel := context.WithTimeout(ctx, time.Duration(5+i)*time.Microsecond)
		err := rs[0].Send(short, ep, 3, data)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if errors.Is(err, ErrInUse) {
			data = make([]byte, len(data))
		}
		for j := range data[:4096] {
			data[j]++
		}
	}
}
