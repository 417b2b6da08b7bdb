package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric"
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

// smallCounted is a domain whose endpoints tell what a small datagram takes of the receive buffer,
// and do not count overruns of that buffer.
type smallCounted struct{ fabric.Domain }

func (d smallCounted) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	ep, err := d.Domain.OpenEndpoint(cfg)
	return smallEndpoint{ep}, err
}

type smallEndpoint struct{ fabric.Endpoint }

func (e smallEndpoint) Caps() fabric.Caps {
	c := e.Endpoint.Caps()
	c.RecvFixedBytes, c.RecvFullBytes = 100, 4000
	return c
}

// A provider may tell the room of small datagrams without counting overruns.
func TestSmallWithoutOverruns(t *testing.T) {
	cfg := smallConfig()
	cfg.PackBytes = 1
	b := newBench(t, mem.Config{}, 0, cfg)
	b.wrap = func(d fabric.Domain) fabric.Domain { return smallCounted{d} }
	for range 2 {
		b.mods = append(b.mods, b.open(cfg))
	}
	mustHandleTag(t, b.mods[1], 1, func(*Endpoint, Tag, []byte) {})
	ep := b.connect(0, 1)
	stretched := false
	for range 400 {
		for range 8 {
			if f, err := ep.Alloc(1, 200); err == nil {
				if _, err := ep.Send(b.now, f); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.step(20 * time.Microsecond)
		stretched = stretched || b.mods[1].all.Credits.Stretched()
	}
	if !stretched {
		t.Error("small packets never had more credits than places")
	}
}
