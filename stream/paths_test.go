package stream

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
)

// join adds a receiver to a stream under way.
func (s *simStream) join(to *simHost, cfg Config, own uint64) *simStream {
	s.w.t.Helper()
	cfg.Unmonitored = false
	rx, err := to.newReceiver(s.w.ring(s.tx.ring.geo, false), cfg, own)
	if err != nil {
		s.w.t.Fatal(err)
	}
	other := &simStream{w: s.w, tx: s.tx, rx: rx}
	to.after = other.read
	if err := s.tx.addReceiver(rx.Identity()); err != nil {
		s.w.t.Fatal(err)
	}
	return other
}

// TestSmallPath: a receiver whose path carries only smaller datagrams leaves the stream, and the
// other receiver gets all. A sender without another receiver ends with the reason. Whether somebody
// tells the sender of the smaller path makes no difference.
func TestSmallPath(t *testing.T) {
	const total = 25000
	cfg := Config{Mode: Unreliable, Messages: total, BitsPerSecond: 1400 * 8 * 5000}
	for _, told := range []bool{false, true} {
		small := sim.Path{Delay: time.Millisecond, MTUBytes: 1000, MTUTold: told}
		for _, two := range []bool{true, false} {
			w := newSimWorld(t, 6, 2)
			w.setPath(sim.Path{Delay: time.Millisecond})
			s := w.open(cfg, Geometry{1400, 4, 8}, 0)
			w.until(time.Minute, func() bool { return s.tx.stats.Sent > 1000 })
			leaves := s
			if two {
				leaves = s.join(w.rx[1], cfg, 78)
				w.until(time.Minute, func() bool { return leaves.rx.stats.Datagrams > 1000 })
				w.nw.SetPath(w.tx.data, w.rx[1].data, small)
			} else {
				w.nw.SetPath(w.tx.data, w.rx[0].data, small)
			}
			w.until(time.Minute, func() bool { return s.ended() && leaves.rx.state == stateDone })
			if !errors.Is(leaves.rx.err, ErrPeerFailed) ||
				!strings.Contains(leaves.rx.err.Error(), "the path takes no datagrams of 1424 bytes") {
				t.Errorf("told %v, two %v: the receiver with the small path: %v", told, two, leaves.rx.err)
			}
			if two {
				if st := s.rx.Stats(); s.tx.err != nil || s.rx.err != nil || st.Received != total {
					t.Errorf("told %v: the other: %v, %v, %d of %d", told, s.tx.err, s.rx.err, st.Received,
						total)
				}
			} else if !errors.Is(s.tx.err, ErrMismatch) || !errors.Is(s.tx.err, syscall.EMSGSIZE) {
				t.Errorf("told %v: the sender: %v", told, s.tx.err)
			}
		}
	}
}

// TestSmallPathAtStart: a path that is too small is found out before the stream begins.
func TestSmallPathAtStart(t *testing.T) {
	for _, told := range []bool{false, true} {
		w := newSimWorld(t, 6, 1)
		w.setPath(sim.Path{Delay: time.Millisecond, MTUBytes: 1400, MTUTold: told})
		cfg := Config{Mode: Unreliable, Messages: 100, Only: true}
		s := w.open(cfg, Geometry{1400, 4, 8}, 0)
		w.until(10*time.Second, s.ended)
		if !errors.Is(s.tx.err, ErrMismatch) || !errors.Is(s.rx.err, ErrPeerFailed) ||
			s.tx.stats.Sent != 0 || s.tx.stats.Refused.Address != 1 {
			t.Errorf("told %v: %v, %v, %+v", told, s.tx.err, s.rx.err, s.tx.stats)
		}
	}
}

// TestLostPaddedProbes: a path that loses most datagrams, and all padded probes, is not too small,
// because the receiver gets datagrams of the stream.
func TestLostPaddedProbes(t *testing.T) {
	w := newSimWorld(t, 13, 1)
	begun, seen := false, 0
	w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		h, ok := parseHeader(d.Data)
		switch {
		case !begun || !ok || len(d.Data) <= headerBytes:
			return sim.Verdict{}
		case h.datagram == probeDatagram:
			seen++
			return sim.Verdict{Drop: true}
		}
		return sim.Verdict{Drop: h.ordinal%10 != 0}
	})
	const total = 50_000
	cfg := Config{Mode: Unreliable, Messages: total, BitsPerSecond: 1400 * 8 * 5000}
	cfg.Begin = func() { begun = true }
	s := w.open(cfg, Geometry{1400, 4, 8}, 0)
	w.until(time.Minute, s.ended)
	if st := s.rx.Stats(); s.tx.err != nil || s.rx.err != nil || st.Received < total/10 || seen < 10 {
		t.Errorf("%v, %v, %d padded probes, %+v", s.tx.err, s.rx.err, seen, st)
	}
}

// refusing is an endpoint that refuses some large datagrams, as a system does that believes an
// ICMP message.
type refusing struct {
	fabric.Endpoint
	left *int
}

func (r refusing) Post(sends []fabric.Send) (int, error) {
	if *r.left > 0 && sends[0].Len+sends[0].RegionLen > 1000 {
		*r.left--
		return 0, syscall.EMSGSIZE
	}
	return r.Endpoint.Post(sends)
}

// TestRefusedBySystem: what the own system says about the size of datagrams ends no stream, as long
// as datagrams of this size reach the receiver.
func TestRefusedBySystem(t *testing.T) {
	w := newSimWorld(t, 14, 1)
	w.setPath(sim.Path{Delay: time.Millisecond})
	left := 0
	cfg := Config{Mode: Unreliable, Messages: 20_000, BitsPerSecond: 1400 * 8 * 5000}
	w.tx.Engine.data.main.ep = refusing{w.tx.Engine.data.main.ep, &left}
	s := w.open(cfg, Geometry{1400, 4, 8}, 0)
	w.until(time.Minute, func() bool { return s.tx.stats.Sent > 1000 })
	const refused = 100
	left = refused
	w.until(time.Minute, s.ended)
	st := s.rx.Stats()
	if s.tx.err != nil || s.rx.err != nil || left != 0 || st.Missing > refused ||
		st.Received+st.Missing != 20_000 {
		t.Errorf("%v, %v, %d left, %+v", s.tx.err, s.rx.err, left, st)
	}
}

// TestTwoReceiversOneBuffer: to two receivers no buffer is posted again before its completion, and
// no address is removed before the completion of a send to it (the network reports both).
func TestTwoReceiversOneBuffer(t *testing.T) {
	const total = 5000
	w := newSimWorld(t, 6, 2)
	w.setPath(sim.Path{Delay: time.Millisecond})
	cfg := Config{Mode: Unreliable, Messages: total, BitsPerSecond: 1400 * 8 * 5000}
	s := w.open(cfg, Geometry{1400, 4, 8}, 0)
	w.until(time.Minute, func() bool { return s.tx.stats.Sent > 1000 })
	if s.tx.cast.caps.InjectBytes >= 1400 {
		t.Fatal("sends have no completions here")
	}
	other := s.join(w.rx[1], cfg, 78)
	w.until(time.Minute, func() bool { return s.ended() && other.rx.state == stateDone })
	if st := s.rx.Stats(); s.tx.err != nil || s.rx.err != nil || st.Received != total || s.wrong != 0 {
		t.Errorf("the first: %v, %v, %d of %d, %d wrong", s.tx.err, s.rx.err, st.Received, total,
			s.wrong)
	}
	st := other.rx.Stats()
	if other.rx.err != nil || st.Received < total/2 || st.Received+st.Missing != total ||
		other.wrong != 0 {
		t.Errorf("the second: %v, %d wrong, %+v", other.rx.err, other.wrong, st)
	}
	if c := s.tx.cast; len(c.port.txBuf) != txBuffers {
		t.Errorf("%d of %d buffers came back", len(c.port.txBuf), txBuffers)
	}
}

// TestLostSplitMessages: a path that loses all padded probes and most other large datagrams is not
// too small, also if the receiver gets fewer datagrams than the sender sends messages. The last
// datagram of a message has the size of the others (2800 bytes), or is smaller (2801 bytes).
func TestLostSplitMessages(t *testing.T) {
	for _, size := range []int{2800, 2801} {
		w := newSimWorld(t, 13, 1)
		begun, probes := false, 0
		w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
			h, ok := parseHeader(d.Data)
			switch {
			case !begun || !ok || len(d.Data) <= headerBytes:
				return sim.Verdict{}
			case h.datagram == probeDatagram:
				probes++
				return sim.Verdict{Drop: size == 2800 || probes%40 != 0}
			}
			return sim.Verdict{Drop: h.ordinal%10 != 0}
		})
		const total = 100_000
		cfg := Config{Mode: Unreliable, Messages: total, BitsPerSecond: float64(size) * 8 * 5000}
		cfg.Begin = func() { begun = true }
		s := w.open(cfg, Geometry{size, 4, 8}, 0)
		w.until(time.Minute, s.ended)
		if c := s.tx.cast; c.datagrams != 2 {
			t.Fatalf("%d datagrams a message", c.datagrams)
		}
		st := s.rx.Stats()
		if s.tx.err != nil || s.rx.err != nil || st.Received < total/10 || probes < 20 {
			t.Errorf("%d bytes: %v, %v, %d padded probes, %+v", size, s.tx.err, s.rx.err, probes, st)
		}
	}
}

// TestLastDatagramsPass: a path that carries only the smaller last datagrams of messages is too
// small, although the receiver gets datagrams of the stream.
func TestLastDatagramsPass(t *testing.T) {
	const size = 2801
	w := newSimWorld(t, 13, 1)
	begun := false
	w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		return sim.Verdict{Drop: begun && len(d.Data) > headerBytes+size/2}
	})
	cfg := Config{Mode: Unreliable, Messages: 100_000, BitsPerSecond: size * 8 * 5000}
	s := w.open(cfg, Geometry{size, 4, 8}, 0)
	w.until(time.Minute, func() bool { return s.tx.stats.Sent > 1000 })
	begun = true
	w.until(10*time.Second, s.ended)
	if st := s.rx.Stats(); !errors.Is(s.tx.err, syscall.EMSGSIZE) || st.Datagrams < 3000 {
		t.Errorf("%v, %v, %+v", s.tx.err, s.rx.err, st)
	}
}

// TestJoinWhileStreamEnds: the sender ends soon after its first receiver, in whatever state of the
// start the last message finds a receiver that joins late.
func TestJoinWhileStreamEnds(t *testing.T) {
	found := map[linkState]int{}
	for joinAt := uint64(3500); joinAt < 5000; joinAt += 100 {
		w := newSimWorld(t, 6, 2)
		w.setPath(sim.Path{Delay: time.Millisecond})
		for _, from := range []*sim.Node{w.tx.ctl, w.rx[1].ctl} {
			for _, to := range []*sim.Node{w.tx.ctl, w.rx[1].ctl} {
				w.nw.SetPath(from, to, sim.Path{Delay: 20 * time.Millisecond})
			}
		}
		const total = 5000
		cfg := Config{Mode: Unreliable, Messages: total, BitsPerSecond: 1400 * 8 * total}
		cfg.Grace = time.Second // which the first receiver waits, because it misses a message
		w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
			h, ok := parseHeader(d.Data)
			return sim.Verdict{Drop: ok && h.datagram == 0 && h.ordinal == 1000}
		})
		s := w.open(cfg, Geometry{1400, 4, 8}, 0)
		w.until(time.Minute, func() bool { return s.tx.stats.Sent > joinAt })
		late := s.join(w.rx[1], cfg, 78)
		link := s.tx.links[1]
		w.until(time.Minute, func() bool { return s.tx.state == stateEnding })
		state := link.state
		found[state]++
		w.until(time.Minute, func() bool { return s.rx.state == stateDone })
		began := w.nw.Now()
		w.until(time.Minute, func() bool { return s.tx.state == stateDone })
		if took := w.nw.Now().Sub(began); took > cfg.Grace || s.tx.err != nil || s.rx.err != nil {
			t.Errorf("state %d: the sender ends %v after its first receiver: %v, %v", state, took,
				s.tx.err, s.rx.err)
		}
		w.until(time.Minute, func() bool { return late.rx.state == stateDone || late.rx.ep == nil })
		if began := late.rx.stats.Sent > 0; s.tx.stats.PeersLost != 0 || late.rx.err != nil ||
			began != (state >= linkStarted) {
			t.Errorf("state %d: %d receivers lost, the late one: began %v, %v", state,
				s.tx.stats.PeersLost, began, late.rx.err)
		}
	}
	if found[linkSizing] == 0 || found[linkStarted] == 0 || found[linkReady] == 0 {
		t.Errorf("the last message has found receivers in the states %v", found)
	}
}
