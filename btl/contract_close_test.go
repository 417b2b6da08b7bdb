package btl

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/testenv"
)

// packetFilter loses the first n packets that match.
func (l *lab) packetFilter(n int, match func(from []byte, h *frag.Header) bool) *int {
	hits := new(int)
	l.net.SetFilter(func(from, _, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err != nil || *hits >= n || !match(from, &h) {
			return mem.Deliver
		}
		*hits++
		return mem.Drop
	})
	return hits
}

// idleFor gives all modules passes for a while, long enough for what lingers to go.
func (l *lab) idleFor(d time.Duration) {
	l.tb.Helper()
	for end := l.now.Add(d); l.now < end; {
		l.step(10 * time.Millisecond)
	}
}

// Close delivers what was sent, then both sides end in order, also when the goodbye or its ACK is
// lost.
func TestCloseInOrder(t *testing.T) {
	isBye := func(_ []byte, h *frag.Header) bool {
		return h.Kind == frag.KindFrag && h.Tag == frag.TagBye
	}
	for _, c := range []struct {
		name  string
		n     int
		match func(l *lab) func([]byte, *frag.Header) bool
	}{
		{"undisturbed", 0, func(*lab) func([]byte, *frag.Header) bool { return isBye }},
		{"bye lost", 1, func(*lab) func([]byte, *frag.Header) bool { return isBye }},
		{"bye lost three times", 3, func(*lab) func([]byte, *frag.Header) bool { return isBye }},
		{"ACKs of the peer lost", 3, func(l *lab) func([]byte, *frag.Header) bool {
			return func(from []byte, h *frag.Header) bool {
				return h.Kind == frag.KindAck && string(from) == string(nameOf(l.mods[1]).Command)
			}
		}},
		{"data lost", 4, func(*lab) func([]byte, *frag.Header) bool {
			return func(_ []byte, h *frag.Header) bool { return h.Kind == frag.KindChunk }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, mem.Config{}, 2, smallConfig())
			tr := newTraffic(t, testenv.Seed(t, 12), 1)
			l.mods[1].Handle(1, tr.receive)
			a, b := l.pair()
			l.settle(time.Second)
			hits := l.packetFilter(c.n, c.match(l))
			for _, size := range []int{8, 30_000, 1400, 0} {
				tr.send(a, size)
			}
			a.Close(l.now)
			a.Close(l.now)
			if _, err := a.Alloc(1, 8); !errors.Is(err, ErrClosed) {
				t.Errorf("Alloc after Close: %v", err)
			}
			l.until("closed", 100*time.Microsecond, 900*time.Millisecond, func() bool {
				return len(l.ends(0, a)) > 0 && len(l.ends(1, b)) > 0
			})
			if *hits != c.n {
				t.Errorf("%d packets lost, want %d", *hits, c.n)
			}
			if !tr.finished() {
				t.Error("closed before everything was delivered")
			}
			tr.verify()
			l.idleFor(3 * time.Second)
			endA, endB := l.ends(0, a), l.ends(1, b)
			if len(endA) != 1 || endA[0].ev != EventClosed || endA[0].err != nil {
				t.Errorf("the closer was told %v", endA)
			}
			if len(endB) != 1 || endB[0].ev != EventClosed || !errors.Is(endB[0].err, ErrPeerClosed) {
				t.Errorf("the peer was told %v", endB)
			}
			l.wantEmpty(0)
			l.wantEmpty(1)
		})
	}
}

// Both sides close at the same time, with and without loss: each is told once, without an error,
// and nothing stays.
func TestCloseBothAtOnce(t *testing.T) {
	for _, drain := range []bool{false, true} {
		for _, loss := range []float64{0, 0.3} {
			t.Run(fmt.Sprintf("drain=%v/loss=%v", drain, loss), func(t *testing.T) {
				l := newLab(t, mem.Config{}, 2, smallConfig())
				a, b := l.pair()
				l.settle(time.Second)
				if loss > 0 {
					l.chaos(chaos{loss: loss, dup: 0.2}, testenv.Seed(t, 13))
				}
				if drain {
					l.mods[0].Drain(l.now, Never)
					l.mods[1].Drain(l.now, Never)
					if _, err := l.mods[0].Connect(l.now, l.mods[1].Name()); !errors.Is(err, ErrClosed) {
						t.Errorf("Connect while draining: %v", err)
					}
				} else {
					a.Close(l.now)
					b.Close(l.now)
				}
				l.until("drained", time.Millisecond, 6*time.Second, func() bool {
					return l.mods[0].Drained() && l.mods[1].Drained()
				})
				for i, ep := range []*Endpoint{a, b} {
					if ends := l.ends(i, ep); len(ends) != 1 || ends[0].ev != EventClosed ||
						ends[0].err != nil && !errors.Is(ends[0].err, ErrPeerClosed) {
						t.Errorf("side %d was told %v", i, ends)
					}
				}
				l.idleFor(2 * time.Second)
				l.wantEmpty(0)
				l.wantEmpty(1)
			})
		}
	}
}

// Drain with a time limit ends then, at the instant that Deadline named.
func TestDrainLimit(t *testing.T) {
	cfg := smallConfig()
	cfg.CloseTimeout = time.Minute
	l := newLab(t, mem.Config{}, 2, cfg)
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	a, _ := l.pair()
	l.settle(time.Second)
	l.cut()
	ended := 0
	f, err := a.Prepare(1, make([]byte, 5000))
	if err != nil {
		t.Fatal(err)
	}
	f.OnDone = func(_ *Fragment, err error) {
		if ended++; !errors.Is(err, ErrClosed) {
			t.Errorf("ended with %v", err)
		}
	}
	if _, err := a.Send(l.now, f); err != nil {
		t.Fatal(err)
	}
	m := l.mods[0]
	until := l.now.Add(30 * time.Millisecond)
	m.Drain(l.now, until)
	for range 10 {
		l.step(20 * time.Microsecond) // so that timers that are due at once are over
	}
	if d := m.Deadline(); d > until {
		t.Errorf("the deadline is %v after the end of the drain", d.Sub(until))
	}
	l.now = until - 1
	l.step(0)
	if m.Drained() || ended != 0 {
		t.Error("ended before its time")
	}
	l.step(1)
	if !m.Drained() || ended != 1 {
		t.Errorf("drained: %v, sends ended: %d", m.Drained(), ended)
	}
	if d := m.Deadline(); d != Never && d <= l.now {
		t.Error("a drained module has a deadline that is over")
	}
}

// Copies of hello-acks that come after their connection was used and closed again do not bring the
// dead endpoint back.
func TestCloseOvertakesHandshake(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
	var copies [][]byte
	server := l.mods[1]
	l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		if pkt[1]&0x0F == byte(frag.KindHelloAck) {
			copies = append(copies, append([]byte(nil), pkt...))
		}
		return mem.Deliver
	})
	server.OnEndpoint(func(ep *Endpoint, ev Event, err error) {
		l.events[1] = append(l.events[1], happening{ep, ev, err})
		if ev == EventConnected {
			sendOrFail(t, ep, 1, []byte("hello and goodbye"))
			ep.Close(l.now)
		}
	})
	a, err := l.mods[0].Connect(l.now, server.Name())
	if err != nil {
		t.Fatal(err)
	}
	l.until("closed by the peer", 10*time.Microsecond, time.Second, func() bool {
		return len(l.ends(0, a)) > 0
	})
	s := l.newScript(0)
	for _, pkt := range copies {
		l.inject(s, nameOf(l.mods[0]).Command, pkt)
		l.step(10 * time.Microsecond)
	}
	if len(copies) < frag.ProbeCount {
		t.Errorf("%d hello-acks were seen", len(copies))
	}
	if a.Connected() || !errors.Is(a.Err(), ErrPeerClosed) {
		t.Errorf("connected: %v, error %v", a.Connected(), a.Err())
	}
	if len(l.events[0]) != 2 {
		t.Errorf("events %v, want connected and closed", l.events[0])
	}
	l.idleFor(5 * time.Second)
	l.wantEmpty(0)
	l.wantEmpty(1)
}

// Packets of a connection that is over, all of them again, harm nothing that came after it.
func TestCloseThenReplay(t *testing.T) {
	cfg := smallConfig()
	cfg.CloseTimeout = 20 * time.Millisecond
	l := newLab(t, mem.Config{}, 2, cfg)
	var recorded [][]byte
	var to [][]byte
	recording := true
	l.net.SetFilter(func(_, dst, pkt []byte) mem.Verdict {
		if recording {
			recorded = append(recorded, append([]byte(nil), pkt...))
			to = append(to, append([]byte(nil), dst...))
		}
		return mem.Deliver
	})
	a, b := l.pair()
	l.exchange(0, 1, a, b)
	a.Close(l.now)
	l.idleFor(200 * time.Millisecond)
	recording = false
	a, b = l.pair()
	tr := newTraffic(t, testenv.Seed(t, 14), 1)
	l.mods[1].Handle(1, tr.receive)
	delivered := counter(l.mods[1], CntDelivered) + counter(l.mods[0], CntDelivered)
	s := l.newScript(0)
	for i, pkt := range recorded {
		l.inject(s, to[i], pkt)
		if i%20 == 0 {
			tr.send(a, 2000)
		}
		l.step(30 * time.Microsecond)
	}
	l.until("delivered", 20*time.Microsecond, time.Second, tr.finished)
	tr.verify()
	now := counter(l.mods[1], CntDelivered) + counter(l.mods[0], CntDelivered)
	if got := int(now - delivered); got != len(tr.sent) {
		t.Errorf("%d messages delivered, %d were sent: replays were", got, len(tr.sent))
	}
	if a.Err() != nil || b.Err() != nil || len(recorded) < 40 {
		t.Errorf("after %d replays: %v, %v", len(recorded), a.Err(), b.Err())
	}
	l.idleFor(5 * time.Second)
	l.wantOneLive(t, a, b)
}

func (l *lab) wantOneLive(t *testing.T, a, b *Endpoint) {
	t.Helper()
	for i, ep := range []*Endpoint{a, b} {
		if live := l.live(i); len(live) != 1 || live[0] != ep || halfOpen(l.mods[i]) != 0 ||
			!ep.Connected() {
			t.Errorf("side %d: %d connections, %d half-open", i, len(live), halfOpen(l.mods[i]))
		}
	}
}

// inject sends bytes to the endpoint of a name, from a script's address.
func (l *lab) inject(s *script, name, pkt []byte) {
	l.tb.Helper()
	to, err := s.dom.Insert(name)
	if err != nil {
		l.tb.Fatal(err)
	}
	saved := s.to[0]
	s.to[0] = to
	s.raw(0, pkt)
	s.to[0] = saved
}
