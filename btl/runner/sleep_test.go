package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/internal/waiting"
)

// ackDelay is how long the receiver of TestRunnerSleepsOwingNothing may keep an ACK back.
const ackDelay = 20 * time.Millisecond

// debtDomain counts for how long its module goes to sleep: an ACK that it owes bounds that.
type debtDomain struct {
	fabric.Domain
	sleeps, owing atomic.Int64
}

func (d *debtDomain) Wait(timeout time.Duration) error {
	d.sleeps.Add(1)
	if timeout <= ackDelay {
		d.owing.Add(1)
	}
	return d.Domain.(fabric.Waiter).Wait(timeout)
}

func (d *debtDomain) Wake() { d.Domain.(fabric.Waiter).Wake() }

// A Runner that sleeps owes nobody an ACK, however long it may keep one back, and no timer wakes it
// for what has arrived: what ends its sleep is to be worth it.
func TestRunnerSleepsOwingNothing(t *testing.T) {
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	from := openRunner(t, b.open(btl.Config{PeerTimeout: time.Minute}))
	debt := &debtDomain{}
	b.wrap = func(dom fabric.Domain) fabric.Domain {
		debt.Domain = dom
		return debt
	}
	var cfg btl.Config
	cfg.PeerTimeout, cfg.Rules.AckDelay = time.Minute, ackDelay
	m := b.open(cfg)
	mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	to := openRunner(t, m)
	ep := connectTo(t, from, to)
	// The timers that are left, of paths and of silent peers, run for longer than a second.
	restful := func() {
		t.Helper()
		for i, r := range []*Runner{from, to} {
			eventually(t, fmt.Sprintf("no timer of a packet to run in runner %d", i), func() (none bool) {
				look := func(m *btl.Module) error { none = m.Deadline().Sub(m.Now()) > time.Second; return nil }
				if err := r.Do(t.Context(), look); err != nil {
					t.Fatal(err)
				}
				return none
			})
		}
	}
	restful() // nothing of the handshake is left
	debt.owing.Store(0)
	for range 20 {
		before := debt.sleeps.Load()
		if err := from.Send(t.Context(), ep, 3, []byte("x")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the receiver to sleep", func() bool { return debt.sleeps.Load() > before })
	}
	if n := debt.owing.Load(); n != 0 {
		t.Errorf("it owes an ACK in %d of %d sleeps", n, debt.sleeps.Load())
	}
	restful()
}

// inFlight counts the packets of a Runner that are not acknowledged. Call it only in callbacks.
func inFlight(r *Runner) uint64 {
	r.hooks.PublishStats()
	return r.Stats().InFlight
}

// An answer takes the ACK of its request along, whoever gives it: none follows it, which would wake
// the peer a second time.
func TestRunnerAnswerTakesAck(t *testing.T) {
	var rs []*Runner
	var ready sync.WaitGroup
	ready.Add(1)
	answered := make(chan uint64, 1)
	rs, ep := pair(t, func(i int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(from *btl.Endpoint, _ btl.Tag, data []byte) {
			if err := from.SendImmediate(from.Now(), 4, data); err != nil {
				t.Error(err)
			}
		})
		mustHandleTag(t, m, 5, func(from *btl.Endpoint, _ btl.Tag, data []byte) {
			ready.Wait()
			go func() {
				if err := rs[i].SendBuffered(context.Background(), from, 4, data); err != nil {
					t.Error(err)
				}
			}()
		})
		mustHandleTag(t, m, 4, func(*btl.Endpoint, btl.Tag, []byte) {
			ready.Wait()
			answered <- inFlight(rs[i])
		})
	})
	ready.Done()
	for n := range 20 {
		err := rs[0].Do(t.Context(), func(m *btl.Module) error {
			return ep.SendImmediate(m.Now(), btl.Tag(3+2*(n%2)), []byte("x"))
		})
		if err != nil {
			t.Fatal(err)
		}
		if left := <-answered; left != 0 {
			t.Errorf("answer %d is here, and %d packets of the request are not acknowledged", n, left)
		}
		time.Sleep(time.Millisecond)
	}
}

// Who waits for long leaves that to the watcher that sleeps in the kernel, and does not look again
// and again meanwhile.
func TestRunnerWaitsAsleep(t *testing.T) {
	r := openRunner(t, openShm(t, nil))
	passes := func() (n uint64) {
		look := func(m *btl.Module) error { n = passesOf(m); return nil }
		if err := r.Do(t.Context(), look); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 3 {
		eventually(t, "the watcher to sleep", r.turn.sleeping.Load)
		before := passes()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := r.Await(ctx, func(*btl.Module, Waker) error { return nil })
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		// Of about a microsecond each: 200 000, if nobody slept.
		if n := passes() - before; n > 10_000 {
			t.Errorf("%d passes in a wait of 200 ms", n)
		}
	}
}

// wakeful is a domain that has no descriptor left to sleep on.
type wakeful struct {
	fabric.Domain
	arms atomic.Int64 // tries to sleep
}

func (d *wakeful) Wait(timeout time.Duration) error {
	return d.Domain.(fabric.Waiter).Wait(timeout)
}

func (d *wakeful) Wake()                     { d.Domain.(fabric.Waiter).Wake() }
func (d *wakeful) Sleep(time.Duration) error { return errors.New("not armed") }

func (d *wakeful) Arm() bool {
	d.arms.Add(1)
	return false
}

// crowdedThread is one of as many that wait as there are processors: it must yield, whatever the
// machine does.
type crowdedThread struct{}

func (crowdedThread) Switches() uint64 { return 0 }
func (crowdedThread) Stolen() uint64   { return 0 }
func (crowdedThread) Crowded() bool    { return true }
func (crowdedThread) Yield()           {}

// A loop that cannot sleep lets others have the processor again and again, between its passes.
func TestRunnerWaitsAwake(t *testing.T) {
	dom := new(wakeful)
	r := openRunner(t, openShm(t, func(inner fabric.Domain) fabric.Domain {
		dom.Domain = inner
		return dom
	}))
	look := func(fn func(m *btl.Module)) {
		t.Helper()
		err := r.Do(t.Context(), func(m *btl.Module) error { fn(m); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	look(func(*btl.Module) {
		for i := range r.policies.each { // the watcher may drive, and the call wait for that
			r.policies.each[i] = waiting.New(WaitAdaptive, 5*time.Millisecond, crowdedThread{}, r.now())
			r.policies.each[i].AmongFriends() // a long yield, beside other work, does not stop the yields
		}
	})
	count := func() (yields, passes uint64) {
		look(func(m *btl.Module) {
			passes = passesOf(m)
			for _, p := range r.policies.each {
				yields += p.Counts().Yields
			}
		})
		return yields, passes
	}
	yields, passes := count()
	for until := dom.arms.Load() + 3; dom.arms.Load() < until; { // searches that ended in no sleep
		short, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := r.Await(short, func(*btl.Module, Waker) error { return nil })
		if stop(); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	more, made := count()
	if yields, passes = more-yields, made-passes; 2*yields < passes {
		t.Errorf("%d yields in %d passes", yields, passes)
	}
}

// What is refused is tried again soon, though somebody sleeps for long.
func TestRunnerTriesAgainAsleep(t *testing.T) {
	r := openRunner(t, openShm(t, nil))
	for range 5 {
		eventually(t, "the watcher to sleep", r.turn.sleeping.Load)
		ready := time.Now().Add(20 * time.Millisecond)
		tries := 0
		err := r.Do(t.Context(), func(*btl.Module) error {
			if tries++; time.Now().Before(ready) {
				return btl.ErrAgain
			}
			return nil
		})
		if err != nil || tries < 2 {
			t.Errorf("%d tries, %v", tries, err)
		}
		if late := time.Since(ready); late > r.cfg.Park/2 {
			t.Fatalf("run again %v late", late)
		}
	}
}

// openRunner starts a Runner for a module.
func openRunner(t *testing.T, m *btl.Module) *Runner {
	t.Helper()
	r := New(m, Config{Park: 10 * time.Second}, nil)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// A call counts once, however often it drives: the watcher naps while there are many.
func TestRunnerCountsCalls(t *testing.T) {
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	drives := func() (n uint64) {
		look := func(*btl.Module) error { n = rs[0].turn.drives; return nil }
		if err := rs[0].Do(t.Context(), look); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := drives()
	const calls = 50
	for range calls {
		if err := rs[0].Send(t.Context(), ep, 3, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if n := drives() - before; n > calls+1 {
		t.Errorf("%d calls count as %d", calls, n)
	}
}
