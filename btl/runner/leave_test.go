package runner

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
)

// Calls for a peer that stands still leave nothing behind when their contexts have ended, whoever
// drives.
func TestRunnerLeavesQueues(t *testing.T) {
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	r := rs[0]
	goOn := standStill(t, rs[1])
	defer func() { goOn() }()
	data := filled(2*r.limits.SegmentBytes, 1)
	full := false
	for i := 0; i < 20*postsMax && !full; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		full = r.SendBuffered(ctx, ep, 3, data) != nil
		cancel()
	}
	refused := func() (n int) {
		count := func(*btl.Module) error { n = r.refused.count; return nil }
		if err := r.Do(t.Context(), count); err != nil {
			t.Error(err)
		}
		return n
	}
	before := refused()
	for i := range 400 {
		if i == 200 { // another call drives, and there is a post in front
			stop, end := context.WithCancel(t.Context())
			begun := make(chan struct{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = r.Await(stop, func(*btl.Module, Waker) error { close(begun); return nil })
			}()
			<-begun
			defer func() { end(); <-ended }()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			err := r.SendBuffered(ctx, ep, 3, data)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) { // there are posts enough
				t.Fatal(err)
			}
			before = refused()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Microsecond)
		err := r.Send(ctx, ep, 3, data)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	eventually(t, "the calls that are over to be gone", func() bool { return refused() <= before })
}

// A call for one endpoint does not wait among those for another.
func TestRunnerAwaitForOne(t *testing.T) {
	const many = 1000
	rs := openRunners(t, 3, nil)
	r := rs[0]
	still, well := connectTo(t, r, rs[1]), connectTo(t, r, rs[2])
	ctx, cancel := context.WithCancel(t.Context())
	var tries atomic.Int64
	ended := make(chan error, many)
	for range many {
		go func() {
			ended <- r.AwaitFor(ctx, still, func(*btl.Module, Waker) error {
				tries.Add(1)
				return btl.ErrAgain
			})
		}()
	}
	eventually(t, "all to be refused", func() bool {
		n := 0
		err := r.Do(t.Context(), func(*btl.Module) error { n = r.refused.count; return nil })
		return err == nil && n == many
	})
	for _, what := range []string{"AwaitFor", "DoFor"} {
		before, first := tries.Load(), int64(0)
		again := func() error {
			if first == 0 {
				first = tries.Load()
				return btl.ErrAgain
			}
			before = tries.Load() - first
			return nil
		}
		var err error
		if what == "DoFor" {
			err = r.DoFor(t.Context(), well, func(*btl.Module) error { return again() })
		} else {
			err = r.AwaitFor(t.Context(), well, func(_ *btl.Module, w Waker) error {
				err := again()
				if err == nil {
					w.Wake(nil)
				}
				return err
			})
		}
		if err != nil || before > 10 {
			t.Errorf("%s: %v, after %d tries of calls for another endpoint", what, err, before)
		}
	}
	cancel()
	for range many {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// What waits for the driver inside Do, deep in a callback, or while the Runner ends, is told so.
func TestRunnerEndMustNotWait(t *testing.T) {
	told := make(chan error, 100)
	rs, ep := pair(t, nil)
	r := rs[0]
	var deep func(n int) error
	deep = func(n int) error {
		if n > 0 {
			err := deep(n - 1)
			return err
		}
		return r.Flush(context.Background(), ep)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, depth := range []int{0, 100, 200} {
		go func() { told <- r.Do(ctx, func(*btl.Module) error { return deep(depth) }) }()
		select {
		case err := <-told:
			if !errors.Is(err, ErrInHandler) {
				t.Errorf("Flush inside Do, %d calls deep: %v", depth, err)
			}
		case <-ctx.Done():
			t.Fatalf("Flush inside Do, %d calls deep, waits for itself", depth)
		}
	}
	// An OnDone that is called as the module is closed.
	goOn := standStill(t, rs[1])
	defer goOn()
	err := r.Do(ctx, func(m *btl.Module) error {
		f, err := ep.Alloc(3, 4)
		if err != nil {
			return err
		}
		f.Signal = true
		f.OnDone = func(*btl.Fragment, error) { told <- r.Flush(context.Background(), ep) }
		_, err = ep.Send(m.Now(), f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancel(ctx)
	end()
	_ = r.Close(over)
	select {
	case <-r.Done():
	case <-ctx.Done():
		t.Fatal("the Runner waits for itself")
	}
	if err := <-told; !errors.Is(err, ErrInHandler) {
		t.Errorf("Flush while the module is closed: %v", err)
	}
}
