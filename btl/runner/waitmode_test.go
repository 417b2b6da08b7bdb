package runner

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/internal/waiting"
)

// bellCount counts how often somebody wakes a domain.
type bellCount struct {
	fabric.Domain
	rung atomic.Int64
}

func (d *bellCount) Wait(timeout time.Duration) error {
	return d.Domain.(fabric.Waiter).Wait(timeout)
}

func (d *bellCount) Wake() {
	d.rung.Add(1)
	d.Domain.(fabric.Waiter).Wake()
}

// countBells starts a runner whose wake-ups are counted.
func countBells(t *testing.T, cfg Config) (*Runner, *bellCount) {
	t.Helper()
	bells := &bellCount{}
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	b.wrap = func(dom fabric.Domain) fabric.Domain {
		bells.Domain = dom
		return bells
	}
	r := New(b.open(btl.Config{}), cfg, nil)
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r, bells
}

// do has many goroutines run operations on a loop.
func do(t *testing.T, r *Runner, callers, each int) {
	t.Helper()
	// A wake-up that is lost shows as an operation that does not end: the loop sleeps for an hour.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if err := r.Do(ctx, func(*btl.Module) error { return nil }); err != nil {
					t.Errorf("an operation that should end at once: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestNoWakeIsLost(t *testing.T) {
	for _, cfg := range []Config{
		{Wait: WaitEvent, Park: time.Hour},
		{Spin: time.Nanosecond, Park: time.Hour},
		{Park: time.Hour},
	} {
		for _, callers := range []int{1, 2, 8} {
			r, bells := countBells(t, cfg)
			do(t, r, callers, 500)
			operations := int64(callers * 500)
			if n := bells.rung.Load(); n > operations {
				t.Errorf("%v, %d callers: woken %d times for %d operations", cfg.Wait, callers, n, operations)
			}
			// Callers do their work themselves; who waits sleeps when they are gone.
			for until := time.Now().Add(20 * time.Second); r.Waits().Sleeps == 0; {
				if time.Now().After(until) {
					t.Fatalf("%v, %d callers: never slept", cfg.Wait, callers)
				}
				time.Sleep(time.Millisecond)
				do(t, r, 1, 1)
			}
		}
	}
}

// TestAwakeIsNotWoken has a loop that never sleeps: a wake-up costs its callers a system call.
func TestAwakeIsNotWoken(t *testing.T) {
	r, bells := countBells(t, Config{Wait: WaitBusy})
	do(t, r, 4, 200)
	if n := bells.rung.Load(); n != 0 {
		t.Errorf("a loop that does not sleep was woken %d times", n)
	}
	if w := r.Waits(); w.Sleeps != 0 {
		t.Errorf("a busy loop slept %d times", w.Sleeps)
	}
}

// The goroutines of calls and the watcher have a policy each, and their counters are added up when
// they are noted.
func TestPolicies(t *testing.T) {
	var p policies
	for i := range p.each {
		p.each[i] = waiting.New(WaitAdaptive, time.Millisecond, new(waiting.OSThread), 1)
	}
	if p.of(nil) != p.each[1] || p.of(new(call)) != p.each[0] {
		t.Error("a goroutine got the policy of another")
	}
	for _, one := range p.each {
		one.Slept(time.Millisecond, time.Millisecond, 0)
	}
	if n := p.counts().Sleeps; n != 0 {
		t.Errorf("%d sleeps before they are noted", n)
	}
	if p.note(); p.counts().Sleeps != 2 {
		t.Errorf("%d sleeps, want 2", p.counts().Sleeps)
	}
}
