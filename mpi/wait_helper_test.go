package mpi

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The helper goroutine polls only if nothing else has polled since it looked last, and ends when it
// is told to, also while it sleeps in a poll.
func TestAsyncProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a asyncProgress
		a.stop(func() { t.Error("a helper that never started is woken") })
		var helped atomic.Int32
		wake := make(chan struct{})
		a.start(func(seen uint64) uint64 {
			n := helped.Add(1)
			if seen != a.polls() {
				t.Errorf("polls %d, and the helper has seen %d", a.polls(), seen)
			}
			if a.polled(); n == 3 {
				<-wake
			}
			return a.polls()
		})
		for range 4 { // A call of the program polls between two ticks.
			a.polled()
			time.Sleep(helpEvery)
			synctest.Wait()
		}
		if n := helped.Load(); n != 0 {
			t.Errorf("the helper has polled %d times beside a call", n)
		}
		time.Sleep(5 * helpEvery)
		synctest.Wait()
		if n := helped.Load(); n != 3 || a.stopped() {
			t.Errorf("the helper has polled %d times, stopped %v", n, a.stopped())
		}
		if a.stop(func() { close(wake) }); !a.stopped() {
			t.Error("the helper was stopped, and does not know")
		}
	})
}

// A watch follows the latest context that can end, and none after clear.
func TestContextWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		w := contextWatch{wake: func() { woken++ }}
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		third, endThird := context.WithCancel(t.Context())
		w.set(first)
		w.set(second)
		w.set(second)
		w.set(context.Background())
		endFirst()
		if synctest.Wait(); woken != 0 {
			t.Error("the end of a context that is watched no more wakes")
		}
		endSecond()
		if synctest.Wait(); woken != 1 {
			t.Errorf("the end of the watched context wakes %d times", woken)
		}
		w.set(third)
		w.clear()
		w.clear()
		endThird()
		if synctest.Wait(); woken != 1 {
			t.Error("a context wakes after clear")
		}
	})
}
