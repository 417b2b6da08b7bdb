package stream

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/sim"
)

// namedLike is an endpoint that claims the name of another one.
type namedLike struct {
	fabric.Endpoint
	name []byte
}

func (n namedLike) Name() []byte { return n.name }

// TestThirdParty: a receiver that names somebody else's address for its data gets no stream, and
// the one that it names nothing but a few probes.
func TestThirdParty(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := newSimWorld(t, 11, 2)
		cfg := Config{
			Mode: Unreliable, Messages: 1 << 40, BitsPerSecond: 64 * 8 * 5000, Meet: 20 * time.Second,
		}
		g := Geometry{64, 4, 8}
		var s *simStream
		victim := w.rx[0]
		if late { // the victim is a receiver already, or nobody
			s = w.open(cfg, g, 0)
			w.until(time.Minute, func() bool { return s.rx.stats.Datagrams > 20 })
		} else {
			ring, _ := NewRing(g, nil)
			cfg.Unmonitored = true
			tx, err := w.tx.newSender(ring, cfg, 99)
			if err != nil {
				t.Fatal(err)
			}
			s = &simStream{w: w, tx: tx}
		}
		ring, _ := NewRing(g, nil)
		cfg.Unmonitored = false
		liar, err := w.rx[1].newReceiver(ring, cfg, 78)
		if err != nil {
			t.Fatal(err)
		}
		own := w.rx[1].Engine.data.main
		own.ep = namedLike{own.ep, victim.Engine.data.main.ep.Name()}
		if err := s.tx.addReceiver(liar.Identity()); err != nil {
			t.Fatal(err)
		}
		w.tx.ctl.Kick()
		w.until(30*time.Second, func() bool { return liar.state == stateDone })
		if !errors.Is(liar.err, ErrPeerFailed) || liar.stats.FirstNs != 0 {
			t.Errorf("late %v: the liar has %v", late, liar.err)
		}
		if late && s.tx.state != stateRunning {
			t.Errorf("the stream has ended: %v", s.tx.err)
		}
		if !late && (!errors.Is(s.tx.err, ErrTimeout) || w.aimed[victim.data.Index()] > probesMax) {
			t.Errorf("sender %v, %d datagrams to the victim", s.tx.err, w.aimed[victim.data.Index()])
		}
	}
}

// TestProbesAreLost: of the probes only one has to arrive.
func TestProbesAreLost(t *testing.T) {
	w := newSimWorld(t, 12, 1)
	lost := 0
	w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		h, ok := parseHeader(d.Data)
		if ok && h.datagram == probeDatagram && lost < probesMax/2 {
			lost++
			return sim.Verdict{Drop: true}
		}
		return sim.Verdict{}
	})
	s := w.open(Config{Mode: Unreliable, Messages: 100, BitsPerSecond: 64 * 8 * 5000},
		Geometry{64, 4, 8}, 0)
	w.until(time.Minute, s.ended)
	s.verdict(100, 0, 0)
	if lost != probesMax/2 || s.rx.Stats().Foreign != 0 {
		t.Errorf("%d probes lost, %+v", lost, s.rx.Stats())
	}
}

// TestProbeFlood: a sender that sends very many probes gets few answers, and its stream goes on.
func TestProbeFlood(t *testing.T) {
	w := newSimWorld(t, 15, 1)
	s := w.open(Config{Mode: Unreliable, Messages: 1 << 40, BitsPerSecond: 1400 * 8 * 5000},
		Geometry{1400, 4, 8}, 0)
	w.until(time.Minute, func() bool { return s.tx.stats.Sent > 1000 })
	sends := func() uint64 {
		st := w.rx[0].m.Stats()
		return st.Get(btl.CntSendsFast) + st.Get(btl.CntSendsPacked) + st.Get(btl.CntSendsQueued)
	}
	before := sends()
	probe := header{key: s.rx.source.key, ordinal: 1, datagram: probeDatagram}
	for range 10_000 {
		w.rx[0].onProbe(probe)
	}
	end := s.tx.stats.Sent + 1000 // 200 ms
	w.until(time.Minute, func() bool { return s.tx.stats.Sent > end })
	if n := sends() - before; n > 2*answersMax+2 || n < 2*answersMax {
		t.Errorf("%d control messages", n)
	}
}
