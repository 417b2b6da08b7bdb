package layers

import (
	"testing"
	"time"

	"gobtl/internal/waiting"
)

// preemptedThread is a thread that is preempted again and again.
type preemptedThread struct{ switches uint64 }

func (t *preemptedThread) Switches() uint64 {
	t.switches += 100
	return t.switches
}

func (*preemptedThread) Crowded() bool  { return false }
func (*preemptedThread) Yield()         {}
func (*preemptedThread) Stolen() uint64 { return 0 }

// A loop that shares its processor reads the clock at each poll, for it yields between them; not
// beside a neighbour that computes, where it does not yield.
func TestClockReadings(t *testing.T) {
	w := newWaiter(waiting.Busy, nil)
	w.policy = waiting.New(waiting.Busy, 0, new(preemptedThread), 1)
	readings := func() uint {
		before := w.looks
		for range 10 * clockEvery {
			w.idle()
		}
		return w.looks - before
	}
	for end := time.Now().Add(time.Minute); !w.yields; { // until the preemption is noticed
		if w.idle(); time.Now().After(end) {
			t.Fatal("a thread that is preempted does not yield")
		}
	}
	if n := readings(); n != 10*clockEvery && w.policy.Counts().Apart == 0 {
		t.Errorf("%d readings in %d polls of a thread that yields", n, 10*clockEvery)
	}
	later := clock().Add(time.Hour) // the neighbour is known for as long
	for range 2 {
		w.policy.Yielded(later, time.Second)
	}
	if n := readings(); n > 2*10 {
		t.Errorf("%d readings in %d polls beside a neighbour", n, 10*clockEvery)
	}
}
