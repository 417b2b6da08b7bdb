package runner

import (
	"bytes"
	"context"
	"runtime/debug"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
)

// worksDomain checks that a goroutine that has worked does not count the work as a part of its next
// wait. All fields but "armed" belong to the goroutine that owns the module.
type worksDomain struct {
	sleeping
	r     *Runner
	ended btl.Time  // when the work ended, or 0 after the check
	by    worker    // which goroutine has worked
	armed chan bool // one value for each check by Arm: whether the wait began after the work
}

// worker is a goroutine that works, and the index of the Policy by which the goroutine waits.
type worker int

const (
	byCall worker = iota
	byWatcher
	byOther // which does not wait
)

func whoWorks() worker {
	switch {
	case inside(".(*Runner).Await("):
		return byCall
	case inside(".(*Runner).watch("):
		return byWatcher
	}
	return byOther
}

// begins reports whether the wait of the goroutine that has worked began after the work.
func (d *worksDomain) begins() bool {
	ended := d.ended
	d.ended = 0
	return d.by == byOther || d.r.policies.each[d.by].Since() >= ended
}

func (d *worksDomain) Arm() bool {
	if d.ended != 0 {
		switch d.by {
		case byOther, whoWorks():
			d.tell(d.begins())
		case byWatcher: // a call sleeps, and the watcher waits for the call without polling
			d.ended = 0
			d.tell(true)
		}
	}
	return d.sleeping.Arm()
}

// tell leaves the result of a check for the function waited. tell drops the result of work that
// nobody asks for: a handler works once for each message.
func (d *worksDomain) tell(ok bool) {
	select {
	case d.armed <- ok:
	default:
	}
}

// The function inside reports whether a function with the given name has called the caller.
func inside(function string) bool { return bytes.Contains(debug.Stack(), []byte(function)) }

// work takes some time.
func (d *worksDomain) work() {
	time.Sleep(time.Millisecond)
	d.ended, d.by = d.r.now(), whoWorks()
}

// waited returns whether the wait after the work began after the work. A call calls Arm only if the
// watcher does not sleep, and otherwise blocks. The watcher always calls Arm if no call comes.
func (d *worksDomain) waited(t *testing.T, r *Runner) (ok bool) {
	t.Helper()
	for checked, arms := false, false; !checked; time.Sleep(time.Microsecond) {
		select {
		case ok = <-d.armed:
			return ok
		default:
		}
		if arms || r.turn.blocked.Load() == 0 {
			continue
		}
		if err := r.Do(t.Context(), func(*btl.Module) error {
			arms = d.ended != 0 && d.by == byWatcher
			// The goroutine that has worked may still be in the pass with the work.
			if d.ended != 0 && !arms && (d.by != whoWorks() || !inside(".(*Runner).pass(")) {
				checked, ok = true, d.begins()
				d.ended = 0
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return ok
}

// A goroutine that drives the module polls for its whole spinning time after its work. The work of
// a call, of the first pass of a call, or of a handler is not a part of the wait.
func TestWaitBeginsAfterWork(t *testing.T) {
	d := &worksDomain{armed: make(chan bool, 1)}
	m := openShm(t, func(dom fabric.Domain) fabric.Domain {
		d.Domain = dom
		return d
	})
	mustHandleTag(t, m, 4, func(*btl.Endpoint, btl.Tag, []byte) { d.work() })
	// The spinning time is so long that the second message to a handler comes before the sleep.
	r, other := New(m, Config{Spin: 20 * time.Millisecond}, nil), openRunner(t, openShm(t, nil))
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	if err := r.Do(t.Context(), func(*btl.Module) error { d.r = r; return nil }); err != nil {
		t.Fatal(err)
	}
	ep, back := connectTo(t, r, other), connectTo(t, other, r)
	await := func(begin func(m *btl.Module)) func(context.Context) {
		return func(ctx context.Context) {
			_ = r.Await(ctx, func(m *btl.Module, _ Waker) error { begin(m); return nil })
		}
	}
	for _, tc := range []struct {
		name string
		do   func(context.Context)
	}{
		{"the function of a call", await(func(*btl.Module) { d.work() })},
		{"the first pass of a call", await(func(m *btl.Module) {
			ep.Flush(m.Now(), func(error) { d.work() })
		})},
		{"a handler", func(ctx context.Context) {
			for range 2 {
				_ = other.Send(ctx, back, 4, []byte("x"))
			}
		}},
	} {
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				tc.do(ctx)
			}()
			if !d.waited(t, r) {
				t.Errorf("%s: the work is a part of the wait", tc.name)
			}
			cancel()
			<-done
		}
	}
}
