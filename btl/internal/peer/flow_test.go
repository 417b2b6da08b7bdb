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
