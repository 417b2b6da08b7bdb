package peer

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// A Pack that takes the last place of a send window removes the large fragments behind it from the
// list of turns. The Packs of other endpoints leave in the same call of SendPacks nevertheless.
func TestPackBeforeRemovedFlow(t *testing.T) {
	r := newRig(t, 3, func(cfg *rigConfig) { cfg.rules.WindowPackets = 8 })
	a, b, st := r.connect(0, 1), r.connect(0, 2), r.stations[0]
	const early, late = 3000, 4000
	st.send(a, early) // leaves a part of its quantum, so that the next turn is a fresh one
	r.steps(30, 10*time.Millisecond)
	if a.large.Deficit <= 0 || a.large.Listed() {
		t.Fatalf("deficit %d, listed: %v", a.large.Deficit, a.large.Listed())
	}
	r.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Hold })
	small := 1 // each message has another size
	send := func(ep *Endpoint) {
		st.send(ep, small)
		small++
	}
	for a.BulkRoom() > 2 {
		send(a)
		r.step(time.Microsecond)
	}
	send(a) // leaves at once
	send(a)
	st.send(a, late)
	send(b) // leaves at once
	send(b)
	if room := a.BulkRoom(); room != 1 || !a.pack.Open() || !b.pack.Open() ||
		a.small.Next() != &a.large.Flow || a.large.Next() != &b.small.Flow {
		t.Fatalf("room for %d packets, Packs open: %v, %v, or another order of turns", room,
			a.pack.Open(), b.pack.Open())
	}
	st.Tick(r.now)
	st.Clock.BeginPass(false)
	st.Packs.SendPacks()
	if a.large.Listed() || a.BulkRoom() > 0 {
		t.Errorf("large fragments are listed: %v, room for %d packets", a.large.Listed(), a.BulkRoom())
	}
	if a.pack.Open() || b.pack.Open() || st.Sched.Packs != 0 {
		t.Errorf("Packs still open: %v, %v, %d counted", a.pack.Open(), b.pack.Open(), st.Sched.Packs)
	}
	r.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Deliver })
	r.net.Release()
	r.steps(100, 10*time.Millisecond)
	for size := range late + 1 {
		if want := size > 0 && size < small || size == early || size == late; want {
			if err, ended := st.ended[uint64(size)]; err != nil || !ended {
				t.Errorf("message of %d bytes: ended %v, %v", size, ended, err)
			}
		}
	}
}
