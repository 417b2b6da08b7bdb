package matrix

import (
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/limits"
	"gobtl/internal/testenv"
)

// skipRace leaves out what runs on one goroutine, where the race detector finds nothing.
func skipRace(t *testing.T) {
	t.Helper()
	if testenv.Race {
		t.Skip("no goroutines")
	}
}

// begin makes so many pairs of hosts.
func begin(t *testing.T, c Cell, profile string, count int) (*world, []pair) {
	t.Helper()
	skipRace(t)
	w, all, err := c.pairs(count, profile, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.check(); err != nil {
			t.Errorf("%s: %v", profile, err)
		}
		w.Network.Close()
	})
	return w, all
}

// finish runs until a stream has ended.
func finish(t *testing.T, w *world, s *stream, limit time.Duration) {
	t.Helper()
	over := func() bool { return s.left == 0 && s.under == 0 || s.err != nil }
	if w.Until(w.Now().Add(limit), over) != nil || s.err != nil {
		t.Fatalf("%d messages done, %d under way after %v: %v", s.done, s.under, limit, s.err)
	}
}

// warm lets a pair exchange some messages, so that it knows its round trip.
func warm(t *testing.T, w *world, p *pair) {
	t.Helper()
	for range 20 {
		s := newStream(p.ep, 64, 1)
		s.left = 5
		s.start(p.from)
		finish(t, w, s, time.Second)
		w.Advance(time.Millisecond)
	}
}

// isData says whether a datagram carries a fragment, or a part or several.
func isData(d *sim.Datagram) bool {
	var h frag.Header
	if _, err := frag.Decode(d.Data, &h); err != nil {
		return false
	}
	return h.Kind == frag.KindFrag || h.Kind == frag.KindChunk || h.Kind == frag.KindPack
}

// TestLostTail loses the last packet of a message, behind which nothing comes that would tell of
// it, and compares with the same message when nothing is lost.
func TestLostTail(t *testing.T) {
	send := func(t *testing.T, profile string, rtt time.Duration, size, lose int) time.Duration {
		w, all := begin(t, clean(rtt, 10e9, 4), profile, 1)
		p := &all[0]
		warm(t, w, p)
		n, drops := 0, 0
		w.SetFilter(func(d *sim.Datagram) sim.Verdict {
			if d.From.Node != p.from.Index() || !isData(d) {
				return sim.Verdict{}
			}
			n++
			if n == lose {
				drops++
				return sim.Verdict{Drop: true}
			}
			return sim.Verdict{}
		})
		s := newStream(p.ep, size, 1)
		s.left = 1
		began := w.Now()
		before := p.to.gotBytes
		s.start(p.from)
		if w.Until(began.Add(time.Second), func() bool { return p.to.gotBytes == before+size }) != nil {
			t.Fatal("not delivered within a second")
		}
		if took := w.Now().Sub(began); lose == 0 || drops == 1 {
			w.Advance(time.Second)
			return took
		}
		t.Fatalf("%d packets were lost, %d sent", drops, n)
		return 0
	}
	for _, rtt := range rtts {
		for name, tc := range map[string]struct{ size, packets int }{
			"lone":   {8, 1},
			"stream": {45 * chunkBytes, 45},
		} {
			cost := func(t *testing.T, profile string) time.Duration {
				return send(t, profile, rtt, tc.size, tc.packets) - send(t, profile, rtt, tc.size, 0)
			}
			t.Run("usnic/"+name+"/"+rtt.String(), func(t *testing.T) {
				got := cost(t, "usnic")
				t.Logf("a lost tail costs %v", got)
				if got < 80*time.Millisecond || got > 120*time.Millisecond {
					t.Errorf("a lost tail costs %v, of a fixed time-out of 100 ms", got)
				}
			})
			t.Run("adaptive/"+name+"/"+rtt.String(), func(t *testing.T) {
				got, most := cost(t, "adaptive"), 2*rtt+time.Millisecond
				t.Logf("a lost tail costs %v", got)
				if got > most {
					t.Errorf("a lost tail costs %v, at most %v", got, most)
				}
			})
		}
	}
}

// TestIncast has 64 hosts send to one that can hold 256 packets and reads slowly: 16 packets in 20
// us, less than comes. Nothing overruns it, and none is behind.
func TestIncast(t *testing.T) {
	skipRace(t)
	for seed := range 5 {
		incast(t, uint64(seed)) //nolint:gosec // a small number
	}
}

func incast(t *testing.T, seed uint64) {
	t.Helper()
	const senders, each = 64, 40
	w, err := newWorld(sim.Config{Seed: 1, QueueDatagrams: 256})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Network.Close()
	cfg := btl.Config{Profile: "adaptive", SendBuffers: 512, RecvDepth: 256}
	cfg.SetLimits(limits.Limits{PollBatch: 16})
	hosts, err := w.openAll(senders+1, cfg)
	if err != nil {
		t.Fatal(err)
	}
	got := map[*btl.Endpoint]float64{}
	receiver, total := hosts[senders], 0
	count := func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		got[ep] += float64(len(data))
		total += len(data)
	}
	if err := receiver.Mod.Handle(tagStream, count); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable
	streams := make([]*stream, senders)
	for i := range streams {
		ep, err := w.connect(hosts[i], receiver)
		if err != nil {
			t.Fatal(err)
		}
		// All different, as in life: else all would be in step.
		path := sim.Path{Delay: time.Duration(20+i) * time.Microsecond}
		if seed > 0 {
			path.Delay += time.Duration(rnd.IntN(20_000))
		}
		w.setPaths(hosts[i], receiver, path, path)
		streams[i] = newStream(ep, streamBytes, 4)
		streams[i].left = each
	}
	receiver.SetPace(20 * time.Microsecond)
	for i, s := range streams {
		s.start(hosts[i])
	}
	const all = senders * each * streamBytes
	end := w.Now().Add(20 * time.Second)
	began := w.Now()
	_ = w.Until(end, func() bool { return total >= all/2 }) // or the time is up
	var rates []float64
	for _, n := range got {
		rates = append(rates, n)
	}
	if len(rates) != senders {
		t.Errorf("at half time %d of %d senders have been heard", len(rates), senders)
	} else if j := jain(rates); j < 0.95 {
		t.Errorf("at half time Jain's index is %.3f, want 0.95: %v", j, rates)
	} else {
		t.Logf("Jain's index %.3f", j)
	}
	_ = w.Until(end, func() bool { return total >= all }) // or the time is up
	t.Logf("%d bytes in %v", total, w.Now().Sub(began))
	var sent, again uint64
	for i, s := range streams {
		finish(t, w, s, time.Second)
		n := hosts[i].Mod.Stats()
		sent, again = sent+n.SegmentsSent(), again+n.Retransmits()
	}
	if t.Logf("seed %d: of %d packets %d were sent again", seed, sent, again); again > sent/1000 {
		t.Errorf("of %d packets %d were sent again", sent, again)
	}
	if n := w.Counts()[sim.KindQueueFull]; n > 0 {
		t.Errorf("the receiver was overrun by %d packets", n)
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
}

// TestReorderedIsNotLost reorders a fifth of the packets: few of them may be sent again.
func TestReorderedIsNotLost(t *testing.T) {
	for _, rtt := range rtts[:2] {
		c := clean(rtt, 1e9, 4)
		c.Reorder = 0.2
		w, all := begin(t, c, "adaptive", 1)
		p := &all[0]
		s := newStream(p.ep, streamBytes, 64)
		s.left = 800
		s.start(p.from)
		finish(t, w, s, 20*time.Second)
		from, to := p.from.Mod.Stats(), p.to.Mod.Stats()
		share := float64(to.Duplicates()) / float64(from.SegmentsSent())
		t.Logf("%v: of %d packets %d were sent again, %d arrived twice: %.2f%%", c, from.SegmentsSent(),
			from.Retransmits(), to.Duplicates(), 100*share)
		if share > 0.01 {
			t.Errorf("%v: %.2f%% of the packets arrived twice, at most 1%%", c, 100*share)
		}
	}
}

// TestMixedSizesAreNotLost sends small and large messages to one peer at once: they take different
// channels, of which one is slower, and nothing of that is a loss.
func TestMixedSizesAreNotLost(t *testing.T) {
	for _, rtt := range rtts[:2] {
		for _, slower := range []time.Duration{0, rtt / 2, 2 * rtt} {
			w, all := begin(t, clean(rtt, 10e9, 1e6), "adaptive", 1)
			p := &all[0]
			warm(t, w, p)
			const dataChannel = 1
			w.SetFilter(func(d *sim.Datagram) sim.Verdict {
				if d.To.Index == dataChannel {
					return sim.Verdict{Delay: slower}
				}
				return sim.Verdict{}
			})
			var streams []*stream
			for _, s := range []struct{ size, depth, left int }{
				{8, 4, 4000}, {700, 2, 2000}, {1400, 4, 2000}, {streamBytes, 2, 200}, {1 << 20, 1, 4},
			} {
				x := newStream(p.ep, s.size, s.depth)
				x.left = s.left
				streams = append(streams, x)
			}
			for _, s := range streams {
				s.start(p.from)
			}
			for _, s := range streams {
				finish(t, w, s, 20*time.Second)
			}
			from, to := p.from.Mod.Stats(), p.to.Mod.Stats()
			if from.Retransmits() > 0 || to.Duplicates() > 0 {
				t.Errorf("rtt %v, data channel slower by %v: of %d packets %d were sent again, %d arrived "+
					"twice", rtt, slower, from.SegmentsSent(), from.Retransmits(), to.Duplicates())
			}
		}
	}
}

// TestPausedReceiver stops the receiver for 200 ms, while a stream comes and while a single message
// does: it is not declared dead, and few packets are sent again.
func TestPausedReceiver(t *testing.T) {
	for name, tc := range map[string]struct{ size, depth, left, most int }{
		"lone":   {8, 1, 1, 12},
		"stream": {streamBytes, 64, 4000, 40},
	} {
		t.Run(name, func(t *testing.T) {
			w, all := begin(t, clean(time.Millisecond, 1e9, 4), "adaptive", 1)
			p := &all[0]
			warm(t, w, p)
			s := newStream(p.ep, tc.size, tc.depth)
			s.left = tc.left
			if tc.left == 1 {
				p.to.Pause(200 * time.Millisecond)
			}
			s.start(p.from)
			w.Advance(50 * time.Millisecond)
			if tc.left > 1 {
				p.to.Pause(200 * time.Millisecond)
			}
			before := p.from.Mod.Stats()
			w.Advance(220 * time.Millisecond)
			after := p.from.Mod.Stats()
			finish(t, w, s, 20*time.Second)
			again := int(after.Retransmits() - before.Retransmits())
			t.Logf("%d packets sent again", again)
			if again > tc.most {
				t.Errorf("%d packets were sent again because the peer paused, at most %d", again, tc.most)
			}
		})
	}
}

// TestBulkHoldsNothingUp sends one very large message, and meanwhile small ones to the same peer
// and to another one: these do not wait for it.
func TestBulkHoldsNothingUp(t *testing.T) {
	const bulkBytes = 64 << 20 // half a second
	for _, same := range []bool{true, false} {
		c := clean(time.Millisecond, 1e9, 1)
		w, all := begin(t, c, "adaptive", 1)
		p := &all[0]
		to, ep := p.to, p.ep
		most := 2*c.RTT + c.RTT/2 // half a round trip, behind a full queue, and an ACK to wait for
		if !same {
			var err error
			if to, err = w.open(btl.Config{Profile: "adaptive"}); err != nil {
				t.Fatal(err)
			}
			if ep, err = w.connect(p.from, to); err != nil {
				t.Fatal(err)
			}
			w.setPaths(p.from, to, c.path(nil), c.path(nil))
			most = c.RTT
		}
		bulk := newStream(p.ep, bulkBytes, 1)
		bulk.left = 1
		bulk.start(p.from)
		w.Advance(100 * time.Millisecond)
		small, err := newPings(p.from, to, ep, 200)
		if err != nil {
			t.Fatal(err)
		}
		small.start(p.from)
		if w.Until(w.Now().Add(2*time.Second), small.done) != nil || small.err != nil {
			t.Fatalf("same peer %v: %d small messages arrived: %v", same, len(small.took), small.err)
		}
		if bulk.done > 0 {
			t.Fatalf("same peer %v: the large message was there first", same)
		}
		p50, p99, worst := quantiles(small.took)
		t.Logf("same peer %v: %v, %v, %v", same, p50, p99, worst)
		if p99 > most {
			t.Errorf("same peer %v: small messages take %v, 99%% of them %v, at most %v", same, p50, p99,
				most)
		}
		finish(t, w, bulk, 10*time.Second)
	}
}
