package stream

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/sim"
)

// TestIdleBesideBlocked: a reader that stands still for a moment holds up no stream of the same
// port for longer than that, least of all one that sends nothing just then.
func TestIdleBesideBlocked(t *testing.T) {
	w := newSimWorld(t, 21, 1)
	cfg := Config{Mode: Unreliable, Timeout: time.Second}
	g := Geometry{64, 4, 8}
	from, _ := NewRing(g, nil)
	into, _ := NewRing(g, nil)
	idle, err := w.tx.newSender(from, cfg, 55)
	if err != nil {
		t.Fatal(err)
	}
	rx, err := w.rx[0].newReceiver(into, cfg, 56)
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.addReceiver(rx.Identity()); err != nil {
		t.Fatal(err)
	}
	cfg.Messages, cfg.BitsPerSecond = 1<<40, 64*8*5000
	busy := w.open(cfg, g, 0)
	w.nw.RunUntil(w.nw.Now().Add(5 * time.Second))
	read := w.rx[0].after
	w.rx[0].after = nil
	w.until(500*time.Millisecond, w.rx[0].Engine.data.waiting)
	w.nw.RunUntil(w.nw.Now().Add(500 * time.Millisecond))
	w.rx[0].after = read
	w.nw.RunUntil(w.nw.Now().Add(5 * time.Second))
	for _, r := range []*Receiver{rx, busy.rx} {
		if r.state != stateRunning {
			t.Errorf("ended: %v", r.Err())
		}
	}
	w.rx[0].after = nil // for good: the stream that waits ends, and then the other goes on
	w.until(3*time.Second, func() bool { return busy.rx.state == stateDone })
	w.nw.RunUntil(w.nw.Now().Add(5 * time.Second))
	if !errors.Is(busy.rx.Err(), ErrStalled) || rx.state != stateRunning {
		t.Errorf("busy %v, idle %v", busy.rx.Err(), rx.Err())
	}
}

// lastLost has the network lose the last datagrams of open's stream.
func (w *simWorld) lastLost(from uint64) {
	w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		h, ok := parseHeader(d.Data)
		return sim.Verdict{Drop: ok && h.datagram != probeDatagram && h.ordinal >= from}
	})
}

// TestLongGrace: a receiver may wait for stragglers for longer than its sender's time-out.
func TestLongGrace(t *testing.T) {
	w := newSimWorld(t, 22, 1)
	w.lastLost(950)
	s := w.open(Config{
		Mode: Unreliable, Messages: 1000, BitsPerSecond: 64 * 8 * 5000, Timeout: time.Second,
		Grace: 20 * time.Second,
	}, Geometry{64, 4, 8}, 0)
	w.until(time.Minute, s.ended)
	s.verdict(1000, 50, 0)
}

// TestEndNotPostponed: neither copies that come for ever, nor a receiver that tells for ever of
// progress, keep the other side from its end.
func TestEndNotPostponed(t *testing.T) {
	for _, side := range []string{"copies", "trickle", "taken"} {
		w := newSimWorld(t, 23, 1)
		const lost = 900
		w.lastLost(1000 - lost)
		s := w.open(Config{
			Mode: Unreliable, Messages: 1000, BitsPerSecond: 64 * 8 * 5000, Timeout: time.Second,
		}, Geometry{64, 4, 8}, 0)
		w.until(time.Minute, func() bool { return s.rx.end != nil })
		payload := make([]byte, 64)
		next, at := uint64(1000-lost), w.nw.Now()
		if side == "taken" {
			s.rx.cfg.Grace = time.Hour // it has told another one
		}
		w.rx[0].after = func() {
			s.read()
			if now := w.nw.Now(); s.rx.state == stateRunning && now.Sub(at) > 50*time.Millisecond {
				at = now
				switch side {
				case "copies":
					s.rx.datagram(header{key: 99, ordinal: 5}, payload, false)
				case "trickle":
					s.rx.datagram(header{key: 99, ordinal: next}, payload, false)
					next++
				case "taken":
					s.rx.fresh++
				}
			}
		}
		began := w.nw.Now()
		w.until(time.Hour, s.ended)
		took := w.nw.Now().Sub(began)
		switch {
		case side == "copies" && (s.tx.err != nil || took > time.Second),
			side == "trickle" && (s.tx.err != nil || took > 2*time.Second),
			side == "taken" && (!errors.Is(s.tx.err, ErrTimeout) || took < 29*time.Second ||
				took > 35*time.Second):
			t.Errorf("%s: ends after %v, sender %v, receiver %v", side, took, s.tx.err, s.rx.err)
		}
	}
}

// TestComeAndGo: receivers that come late and are lost again leave nothing behind, and are no
// failure of the stream.
func TestComeAndGo(t *testing.T) {
	w := newSimWorld(t, 24, 2)
	cfg := Config{Mode: Unreliable, Messages: 200_000, BitsPerSecond: 64 * 8 * 5000}
	g := Geometry{64, 4, 8}
	s := w.open(cfg, g, 0)
	w.until(time.Minute, func() bool { return s.tx.stats.Sent > 100 })
	const visits = 20
	for i := range uint64(visits) {
		ring, _ := NewRing(g, nil)
		c := cfg
		c.Unmonitored = true
		late, err := w.rx[1].newReceiver(ring, c, 100+i)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.tx.addReceiver(late.Identity()); err != nil {
			t.Fatal(err)
		}
		w.until(time.Minute, func() bool { return late.stats.Datagrams > 10 })
		late.fail(errors.New("enough"))
		w.until(time.Minute, func() bool { return s.tx.stats.PeersLost > i })
		w.nw.RunUntil(w.nw.Now().Add(time.Second))
	}
	if n, m := len(s.tx.links), len(w.tx.links); n != 1 || m > 2 {
		t.Errorf("%d links of the sender, %d of its engine", n, m)
	}
	w.until(time.Hour, s.ended)
	s.verdict(200_000, 0, 0)
	if s.tx.stats.PeersLost != visits {
		t.Errorf("%d lost", s.tx.stats.PeersLost)
	}
}

// TestTwiceInOnePort: a port receives a stream once; who asks for more is told, and the stream goes
// on.
func TestTwiceInOnePort(t *testing.T) {
	for _, mode := range []Mode{Reliable, Unreliable} {
		w := newSimWorld(t, 25, 1)
		cfg := Config{Mode: mode, Messages: 1000, BitsPerSecond: 64 * 8 * 5000}
		g := Geometry{64, 4, 8}
		s := w.open(cfg, g, 0)
		ring, _ := NewRing(g, nil)
		second, err := w.rx[0].newReceiver(ring, cfg, 78)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.tx.addReceiver(second.Identity()); !errors.Is(err, ErrMismatch) {
			t.Errorf("%v: a second receiver in the port: %v", mode, err)
		}
		w.until(time.Minute, s.ended)
		s.verdict(1000, 0, 0)
		if second.ep != nil || second.state != stateMeeting {
			t.Errorf("%v: the second one is in state %d", mode, second.state)
		}
	}
}

// TestSenderGoneBeforeTheBeginning: a receiver whose sender is lost before anything began takes the
// next one.
func TestSenderGoneBeforeTheBeginning(t *testing.T) {
	w := newSimWorld(t, 26, 1)
	g := Geometry{64, 4, 8}
	cfg := Config{Messages: 100, Meet: 5 * time.Minute, Receivers: 2} // so it does not begin
	ring, _ := NewRing(g, nil)
	cfg.Unmonitored = true
	first, err := w.tx.newSender(ring, cfg, 98)
	if err != nil {
		t.Fatal(err)
	}
	into, _ := NewRing(g, nil)
	cfg.Unmonitored = false
	rx, err := w.rx[0].newReceiver(into, cfg, 77)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.addReceiver(rx.Identity()); err != nil {
		t.Fatal(err)
	}
	w.until(time.Minute, rx.Met)
	other := w.host("other")
	w.tx.ctl.Crash()
	w.tx.data.Crash()
	w.until(time.Minute, func() bool { return !rx.Met() })
	from, _ := NewRing(g, nil)
	cfg.Unmonitored, cfg.Receivers = true, 1
	tx, err := other.newSender(from, cfg, 99)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.addReceiver(rx.Identity()); err != nil {
		t.Fatal(err)
	}
	s := &simStream{w: w, tx: tx, rx: rx}
	w.rx[0].after = s.read
	other.ctl.Kick()
	w.until(time.Minute, s.ended)
	if tx.err != nil || rx.err != nil || s.got != 100 {
		t.Errorf("sender %v, receiver %v, read %d", tx.err, rx.err, s.got)
	}
}

// A receiver that has joined a running stream and sends no report at the end neither fails the
// stream, nor holds its sender for long, even if it says for ever that it goes on.
func TestNoReportOfLateReceiver(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		w := newSimWorld(t, 27, 2)
		cfg := Config{
			Mode: Unreliable, Messages: 1000, BitsPerSecond: 64 * 8 * 5000, Timeout: 2 * time.Second,
		}
		s := w.open(cfg, Geometry{64, 4, 8}, 0)
		w.until(time.Minute, func() bool { return s.tx.stats.Sent > 100 })
		late := s.join(w.rx[1], cfg, 78)
		w.until(time.Minute, func() bool { return late.rx.stats.Datagrams > 10 })
		bad := w.rx[1]
		bad.ctl.Run(bad.m) // the stream of the late receiver stands still, and its module goes on
		bad.data.Run(nil)
		taken := uint64(1 << 20)
		var say func()
		say = func() {
			taken++
			bad.Engine.now = w.nw.Now()
			bad.sendNotice(late.rx.ep, notice{noticeTaken, 99, taken})
			bad.ctl.Kick()
			w.nw.After(time.Second, say)
		}
		if goesOn {
			say()
		}
		w.until(time.Minute, func() bool { return s.rx.state == stateDone })
		began := w.nw.Now()
		w.until(time.Hour, s.ended)
		s.verdict(1000, 0, 0)
		took := w.nw.Now().Sub(began)
		if took > cfg.Timeout+time.Second || s.tx.stats.PeersLost != 1 {
			t.Errorf("goes on %v: the sender ends %v after its receiver, %d lost", goesOn, took,
				s.tx.stats.PeersLost)
		}
	}
}

// TestUnacknowledgedPuts: the ring of an ended stream is free after Config.Timeout, though a
// receiver acknowledges no put, or one packet now and then.
func TestUnacknowledgedPuts(t *testing.T) {
	for _, name := range []string{"nothing", "trickle"} {
		t.Run(name, func(t *testing.T) {
			w := newSimWorld(t, 25, 1)
			s := w.open(Config{Messages: 1 << 30, Timeout: 2 * time.Second}, Geometry{8000, 4, 64}, 0)
			w.until(time.Minute, func() bool { return s.got > 100 })
			passed := w.nw.Now()
			w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
				toSender := d.To.Node == w.tx.ctl.Index()
				if name == "nothing" || toSender {
					return sim.Verdict{Drop: name == "nothing" && toSender}
				}
				if w.nw.Now().Sub(passed) < time.Second {
					return sim.Verdict{Drop: true}
				}
				passed = w.nw.Now()
				return sim.Verdict{}
			})
			w.nw.RunUntil(w.nw.Now().Add(100 * time.Millisecond))
			s.tx.fail(ErrClosed)
			if len(w.tx.lingering) != 1 {
				t.Fatal("no put is in flight")
			}
			w.until(3*time.Second, func() bool { return len(w.tx.lingering) == 0 })
			if !s.tx.ring.claim() {
				t.Error("the ring is in use")
			}
		})
	}
}
