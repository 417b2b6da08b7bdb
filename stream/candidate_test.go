//go:build unix

package stream

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric/sim"
)

// farPath is the way to a host of another continent.
var farPath = sim.Path{Delay: 150 * time.Millisecond}

// far makes the ways between two hosts long.
func (w *simWorld) far(x, y *simHost) {
	for _, a := range []*sim.Node{x.ctl, x.data} {
		for _, b := range []*sim.Node{y.ctl, y.data} {
			w.nw.SetPath(a, b, farPath)
			w.nw.SetPath(b, a, farPath)
		}
	}
}

// Senders of one host that say a valid hello, and say it again after each refusal, do not keep away
// the sender of another host that is far away.
func TestCandidatesOfOneHost(t *testing.T) {
	const liars = 2 * candidatesMax
	w := newSimWorld(t, 51, 1)
	w.teller()
	w.move(w.tx, honestHost)
	w.rx[0] = w.host("chosen") // it tells hosts apart
	w.far(w.tx, w.rx[0])
	cfg := Config{Messages: 100}
	s := w.receiver(w.rx[0], cfg, 77)
	for i := range liars {
		bad := w.rogue(t, "bad"+text(uint64(i)))
		bad.key += uint64(1000 * i)
		w.hosts[bad.node.Index()] = liarsHost
		bad.connect(s.rx.Identity().Name)
		var again func()
		again = func() {
			if bad.ep.Err() == nil && s.rx.state == stateMeeting {
				bad.key++
				bad.say(bad.ep, bad.hello(77, nil))
			}
			w.nw.After(10*time.Millisecond, again)
		}
		again()
	}
	s.send(w.tx, cfg, 99, s.rx.Identity())
	for range 40 {
		w.nw.RunUntil(w.nw.Now().Add(500 * time.Millisecond))
		s.addAgain()
	}
	if !s.ended() || s.rx.stats.Received != 100 || s.tx.stats.Refused.Total() > 0 {
		t.Errorf("after 20 s: sender in state %d, %v, refused %+v; receiver in state %d, %v, refused %+v",
			s.tx.state, s.tx.err, s.tx.stats.Refused, s.rx.state, s.rx.err, s.rx.stats.Refused)
	}
}

// addAgain adds the receiver to a sender that has no receiver any more, as btlstream does.
func (s *simStream) addAgain() {
	if ready, meeting := s.tx.alive(); s.tx.state != stateMeeting || ready+meeting > 0 {
		return
	}
	if err := s.tx.addReceiver(s.rx.Identity()); err != nil {
		s.w.t.Fatal(err)
	}
	s.w.tx.ctl.Kick()
}

// A sender that drops its receiver and adds it again gets the answers that it has missed, whether
// the receiver knows it as a candidate or has begun the stream.
func TestReceiverAddedAgain(t *testing.T) {
	for _, mode := range []Mode{Reliable, Unreliable} {
		for when, there := range map[string]func(s *simStream) bool{
			"candidate": func(s *simStream) bool { return len(s.rx.candidates) > 0 },
			"running":   func(s *simStream) bool { return s.rx.state == stateRunning },
		} {
			t.Run(fmt.Sprint(mode, " ", when), func(t *testing.T) {
				w := newSimWorld(t, 52, 1)
				w.far(w.tx, w.rx[0])
				cfg := Config{Mode: mode, Messages: 100}
				s := w.receiver(w.rx[0], cfg, 77)
				s.rx.cfg.Gap = func(first, last uint64) { s.gaps += last - first + 1 }
				s.send(w.tx, cfg, 99, s.rx.Identity())
				w.until(time.Minute, func() bool { return there(s) })
				if s.tx.state != stateMeeting {
					t.Fatal("the answer has come already")
				}
				s.tx.links[0].unmet(RefusedTaken, errTaken) // as after a late refusal
				w.nw.RunUntil(w.nw.Now().Add(time.Second))
				s.addAgain()
				s.whole(5*time.Second, 100)
			})
		}
	}
}

// A sender that starts its stream again, but in another way, ends that stream.
func TestStartAgainInAnotherWay(t *testing.T) {
	w := newSimWorld(t, 53, 1)
	s := w.receiver(w.rx[0], Config{Mode: Unreliable, Messages: 100}, 77)
	bad := w.rogue(t, "bad")
	bad.connect(s.rx.Identity().Name)
	bad.say(bad.ep, bad.hello(77, obj{"mode": "unreliable"}))
	start := func(bytes int) bool {
		return bad.say(bad.ep, obj{"kind": letterStart, "key": text(bad.key), "start": obj{
			"datagram_bytes": bytes, "sent": "0",
		}})
	}
	w.until(time.Minute, func() bool { return len(s.rx.candidates) > 0 })
	start(headerBytes + 64)
	w.until(time.Minute, func() bool { return s.rx.state == stateRunning })
	start(headerBytes + 64)
	w.nw.RunUntil(w.nw.Now().Add(time.Second))
	if s.rx.err != nil {
		t.Fatal(s.rx.err)
	}
	start(headerBytes + 32)
	w.nw.RunUntil(w.nw.Now().Add(time.Second))
	if _, told := bad.got(letterAbort); !told || !errors.Is(s.rx.err, ErrMismatch) {
		t.Errorf("%v, the sender was told: %v", s.rx.err, told)
	}
}
