package btl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gobtl/fabric/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openRunners starts n runners on one network.
func openRunners(t *testing.T, n int, handle func(i int, m *Module)) []*Runner {
	t.Helper()
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	var rs []*Runner
	for i := range n {
		// On a slow machine a test may hold a peer still for longer than the default allows.
		m := b.open(Config{PeerTimeout: time.Minute})
		if handle != nil {
			handle(i, m)
		}
		rs = append(rs, NewRunner(m, RunnerConfig{}, nil))
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
	begin := func(*Module) error { began = true; return nil }
	beginAwait := func(*Module, Waker) error { began = true; return nil }
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
		"Atomic":       second(r.Atomic(none, ep, Atomic{})),
		"Flush":        r.Flush(none, ep),
		"Start":        second(r.Start(none, ep, 1, nil)),
		"StartPut":     second(r.StartPut(none, ep, nil, 0, 0)),
		"Wait":         pending.Wait(none),
		"Close":        r.Close(none),
	} {
		if !errors.Is(err, ErrContext) {
			t.Errorf("%s: %v, want ErrContext", what, err)
		}
	}
	if began {
		t.Error("a call without a context has begun")
	}
	if err := pending.Wait(t.Context()); !errors.Is(err, ErrNoHandler) {
		t.Errorf("what went on: %v", err)
	}
}

func TestRunnerManyGoroutines(t *testing.T) {
	const senders, messages = 8, 50
	var mu sync.Mutex
	seen := map[string]int{}
	rs := openRunners(t, 2, func(i int, m *Module) {
		m.Handle(3, func(_ *Endpoint, _ Tag, data []byte) {
			mu.Lock()
			seen[string(data)]++
			mu.Unlock()
		})
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var name []byte
	if err := rs[1].Do(ctx, func(m *Module) error { name = m.Name(); return nil }); err != nil {
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
		return s.Get(CntDelivered) == senders*messages
	})
}

func TestRunnerErrors(t *testing.T) {
	rs := openRunners(t, 1, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := rs[0].Connect(ctx, []byte("nonsense")); !errors.Is(err, ErrBadName) {
		t.Errorf("connect to nonsense: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := rs[0].Do(ended, func(*Module) error { return nil }); !errors.Is(err, context.Canceled) &&
		err != nil {
		t.Errorf("Do with a context that has ended: %v", err)
	}
	if err := rs[0].Close(ctx); err != nil {
		t.Error(err)
	}
	if err := rs[0].Do(ctx, func(*Module) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Do after Close: %v", err)
	}
}
