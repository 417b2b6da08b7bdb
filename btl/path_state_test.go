package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// An endpoint tells what it knows of its path, and the module counts the probe that found a lost
// tail: no time-out, and nothing in vain.
func TestPathOfEndpoint(t *testing.T) {
	cfg := smallConfig()
	cfg.Profile = "adaptive"
	l := newLab(t, mem.Config{}, 2, cfg)
	mustHandle(t, l.mods[1], func() {})
	a, _ := l.pair()
	l.settle(time.Second)
	if p := a.Path(); p.RoundTrip != 0 || p.WindowPackets < 2 || !p.SlowStart {
		t.Errorf("before the first message: %+v", p)
	}
	round := func(size int) {
		ended := send(t, a, size)
		l.until("acknowledged", 5*time.Microsecond, 10*time.Millisecond, func() bool {
			return !errors.Is(*ended, errPending)
		})
	}
	for range 20 {
		round(5000)
	}
	p := a.Path()
	if p.RoundTrip <= 0 || p.RoundTrip > time.Millisecond || p.Least <= 0 || p.Least > p.RoundTrip ||
		p.InFlightPackets != 0 {
		t.Errorf("after some messages: %+v", p)
	}
	lost := 0
	l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindChunk && lost == 0 {
			lost++
			return mem.Drop
		}
		return mem.Deliver
	})
	round(2000)
	l.settle(time.Second)
	s := l.mods[0].Stats()
	if s.Retransmits() != 1 || s.Get(CntRetransmitProbe)+s.Get(CntRetransmitLost) != 1 ||
		s.Get(CntSpurious) != 0 || s.Get(CntThrottled) != 0 {
		t.Errorf("%d packets again: %d probes, %d lost, %d in vain, %d throttled", s.Retransmits(),
			s.Get(CntRetransmitProbe), s.Get(CntRetransmitLost), s.Get(CntSpurious),
			s.Get(CntThrottled))
	}
}
