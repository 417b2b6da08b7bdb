package peer

import (
	"testing"
	"time"

	"gobtl/btl/internal/stats"
	"gobtl/fabric/mem"
)

// An endpoint that could send more, but for the bound of a pass, has the next pass asked for at
// once.
func TestDeadlineWhenReady(t *testing.T) {
	r := newRig(t, 2, func(cfg *rigConfig) { cfg.Limits.PassPackets = 1 })
	ep, st := r.connect(0, 1), r.stations[0]
	r.steps(30, 10*time.Millisecond)
	r.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Hold })
	for range 3 {
		f := st.alloc(ep, 1000)
		if st.Sender.enqueue(ep, f); st.Deadline() != st.Clock.Now {
			t.Fatalf("after Send the deadline is %d, and it is %d", st.Deadline(), st.Clock.Now)
		}
		st.Frags.lent--
		st.Count[stats.CntSendsQueued]++
	}
	for left := 2; left >= 0; left-- {
		r.step(0)
		if _, queued := ep.Outstanding(); queued != left {
			t.Fatalf("%d fragments are queued, want %d", queued, left)
		}
		if busy := st.Deadline() <= st.Clock.Now; busy != (left > 0) {
			t.Errorf("%d fragments are queued, and a pass is asked for: %v", left, busy)
		}
	}
	r.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Deliver })
	r.net.Release()
	r.steps(30, 10*time.Millisecond)
	if got := r.stations[1].got; got != 3 {
		t.Errorf("%d messages arrived", got)
	}
}

// The send queue of large fragments is made for the first of them. The one that all endpoints share
// before that is never changed.
func TestLargeQueueMadeOnUse(t *testing.T) {
	r := newRig(t, 2, nil)
	ep, st := r.connect(0, 1), r.stations[0]
	for _, size := range []int{1, 100, 700, 700} {
		st.send(ep, size)
	}
	r.steps(30, 10*time.Millisecond)
	if ep.large != &noLarge {
		t.Error("small messages have made a queue for large ones")
	}
	for _, size := range []int{5000, 9, 6000} {
		st.send(ep, size)
	}
	r.steps(100, 10*time.Millisecond)
	if ep.large == &noLarge || ep.large.Owner != ep {
		t.Errorf("the large messages have the queue %p", ep.large)
	}
	for _, size := range []int{5000, 9, 6000} {
		if err, ended := st.ended[uint64(size)]; !ended || err != nil {
			t.Errorf("message of %d bytes: ended %v, %v", size, ended, err)
		}
	}
	if noLarge != (largeFlow{}) {
		t.Errorf("the shared queue is %+v", noLarge)
	}
}
