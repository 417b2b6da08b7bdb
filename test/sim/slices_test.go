package sim_test

import (
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/test/sim/cluster"
)

// resends are the counters of packets sent again.
var resends = []btl.Counter{
	btl.CntRetransmitTimeout, btl.CntRetransmitDupAck, btl.CntRetransmitLost,
	btl.CntRetransmitProbe, btl.CntRetransmitNack,
}

// preempt takes the CPU away from a host again and again: it runs for one slice, and then another
// process runs for one slice. Slices last from 3 to 10 ms.
func (w *crowd) preempt(h *cluster.Host, seed uint64) {
	slice := func() time.Duration {
		seed = seed*6364136223846793005 + 1442695040888963407
		return 3*time.Millisecond + time.Duration(seed>>33)%(7*time.Millisecond)
	}
	var lose func()
	lose = func() {
		away := slice()
		h.Pause(away)
		w.After(away+slice(), lose)
	}
	w.After(slice(), lose)
}

// TestSlicesAway streams between two hosts that share their CPUs with other programs. The path
// loses nothing, so hardly any packet needs to be sent again.
func TestSlicesAway(t *testing.T) {
	skipRace(t)
	for _, c := range []struct {
		sender, receiver bool
		roundTrip        time.Duration
	}{
		{true, false, 20 * time.Microsecond},
		{false, true, 20 * time.Microsecond},
		{true, true, 20 * time.Microsecond},
		{true, true, time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%v-%v-%v", c.sender, c.receiver, c.roundTrip), func(t *testing.T) {
			w := newCrowd(t, sim.Config{Seed: 1, QueueDatagrams: 4096})
			to, from := w.open("to", btl.Config{}), w.open("from", btl.Config{})
			w.SetPaths(sim.Path{Delay: c.roundTrip / 2, BytesPerSecond: 1e9, QueueBytes: 8 << 20})
			ep := w.connect(from, to)
			if c.sender {
				w.preempt(from, 1)
			}
			if c.receiver {
				w.preempt(to, 2)
			}
			got := w.stream(from, ep, 2*time.Second)
			var sent, again uint64
			s := from.Mod.Stats()
			for _, k := range resends {
				again += s.Get(k)
			}
			for k := btl.CntSentFrag; k <= btl.CntSentPack; k++ {
				sent += s.Get(k)
			}
			most := sent / 200
			if !c.receiver {
				most = 0 // all ACKs are there before the sender runs again
			}
			if got == 0 || again > most {
				t.Errorf("%d bytes, %d packets, %d sent again, want at most %d", got, sent, again, most)
			}
			if err := w.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}
