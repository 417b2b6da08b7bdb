package stream

import (
	"errors"
	"syscall"
	"testing"
	"time"

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
// other receiver gets all. A sender without another receiver ends with the reason.
func TestSmallPath(t *testing.T) {
	const total = 5000
	small := sim.Path{Delay: time.Millisecond, MTUBytes: 1000, MTUTold: true}
	cfg := Config{Mode: Unreliable, Messages: total, BitsPerSecond: 1400 * 8 * 5000}
	for _, two := range []bool{true, false} {
		w := newSimWorld(t, 6, 2)
		w.setPath(sim.Path{Delay: time.Millisecond})
		s := w.open(cfg, Geometry{1400, 4, 8}, 0)
		w.until(time.Minute, func() bool { return s.tx.stats.Sent > 1000 })
		leaves := s
		if two {
			leaves = s.join(w.rx[1], cfg, 78)
			w.nw.SetPath(w.tx.data, w.rx[1].data, small)
		} else {
			w.nw.SetPath(w.tx.data, w.rx[0].data, small)
		}
		w.until(time.Minute, func() bool { return s.ended() && leaves.rx.state == stateDone })
		if !errors.Is(leaves.rx.err, ErrPeerFailed) {
			t.Errorf("two %v: the receiver with the small path: %v", two, leaves.rx.err)
		}
		if two {
			if st := s.rx.Stats(); s.tx.err != nil || s.rx.err != nil || st.Received != total {
				t.Errorf("the other: %v, %v, %d of %d", s.tx.err, s.rx.err, st.Received, total)
			}
		} else if !errors.Is(s.tx.err, ErrMismatch) || !errors.Is(s.tx.err, syscall.EMSGSIZE) {
			t.Errorf("the sender: %v", s.tx.err)
		}
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
