package btl

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// reborn is the script's module as it comes back, in another life at the same addresses.
func (s *script) reborn(life uint64) {
	s.hello.Incarnation, s.hello.Tag = life, life<<8
	s.hello.Proven, s.conn = 0, 0
}

// again has the script connect once more in the same life: it has forgotten that it was connected.
func (s *script) again() *Endpoint {
	s.l.tb.Helper()
	s.hello.Tag++
	s.hello.Proven, s.conn = 0, 0
	return s.connect()
}

// A module that was restarted had as many connections as one address may have, all of which its
// peer still knows. It is let in at once, and when it is connected all ends of its earlier life are
// over, not only the one that was made last.
func TestRestartEndsAllOfTheEarlierLife(t *testing.T) {
	cfg := smallConfig()
	cfg.limits.PeersPerAddress, cfg.CloseTimeout = 10, time.Hour
	l, s := newStranger(t, cfg)
	other := l.newScript(0) // at another address
	stranger := other.connect()
	olds := []*Endpoint{s.connect()}
	for len(olds) < 10 {
		olds = append(olds, s.again())
	}
	for i, ep := range olds {
		if !ep.Connected() {
			t.Fatalf("end %d: %v", i, ep.Err())
		}
	}

	s.reborn(s.hello.Incarnation + 1)
	fresh := s.connect()
	for i, ep := range olds {
		if !errors.Is(ep.Err(), ErrPeerRestarted) {
			t.Errorf("end %d of the earlier life: %v", i, ep.Err())
		}
	}
	if !fresh.Connected() || !stranger.Connected() {
		t.Errorf("the new life: %v; somebody else: %v", fresh.Err(), stranger.Err())
	}
	if n := peersOf(l.mods[0]); n != 2 {
		t.Errorf("%d endpoints", n)
	}
	if err := l.mods[0].Check(); err != nil {
		t.Error(err)
	}
}

// An endpoint that connects to a life of the peer does not take over the connection of the next
// life, which is made before the peer has heard of that endpoint. The endpoint ends instead.
func TestRestartWhileConnecting(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	own := nameOf(s.m)
	l.net.SetFilter(func(from, _, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindHello &&
			(bytes.Equal(from, own.Command) || bytes.Equal(from, own.Data)) {
			return mem.Drop
		}
		return mem.Deliver
	})
	old, err := s.m.Connect(l.now, s.address())
	if err != nil {
		t.Fatal(err)
	}
	s.reborn(s.incarnation + 1)
	if fresh := s.connect(); fresh == old {
		t.Error("the endpoint to the earlier life is connected to the next one")
	}
	if !errors.Is(old.Err(), ErrPeerRestarted) {
		t.Errorf("the endpoint to the earlier life: %v", old.Err())
	}
}

// Who only shows cookies, in whatever life, ends nothing; of half-open ends one address has no more
// than its share, whatever lives they are of.
func TestHalfOpenLivesEndNothing(t *testing.T) {
	cfg := smallConfig()
	cfg.limits.PeersPerAddress = 4
	l, s := newStranger(t, cfg)
	m := l.mods[0]
	old := s.connect()
	for i := range 10 {
		s.reborn(uint64(i) + 1000)
		s.meet()
		s.raw(0, s.packHello(frag.KindHello, 0, frag.ProbeCommand))
		refused := kinds(s.run(4), frag.KindReject)
		if full := i >= 4; len(refused) == 1 != full {
			t.Errorf("life %d: refused %d times", i, len(refused))
		}
	}
	if !old.Connected() {
		t.Errorf("the connection that was there: %v", old.Err())
	}
	if halfOpen(m) != 4 {
		t.Errorf("%d are half open", halfOpen(m))
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}

// An end that was made after the one that is established late is of a life that may be the later
// one: it stays.
func TestLateProofEndsNoLaterLife(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	s.meet()
	s.raw(0, s.packHello(frag.KindHello, 0, frag.ProbeCommand))
	for _, pkt := range s.run(4) {
		s.learn(pkt)
	}
	early := *s // half open; the last word of this life is under way

	s.reborn(s.hello.Incarnation + 1)
	later := s.connect()
	second := s.again()
	early.hello.Proven = frag.ProvenAll
	s.raw(0, early.packHello(frag.KindHello, early.conn, frag.ProbeCommand))
	s.run(4)
	if !later.Connected() || !second.Connected() {
		t.Errorf("ends of the later life: %v, %v", later.Err(), second.Err())
	}
	if ep := endpointOf(l.mods[0].all.Peers.Lookup(early.conn)); ep != nil {
		t.Errorf("the late one goes on: state %v", ep.c.ID.State)
	}
}

// Of two lives that are half open the earlier one may be established first. It ends nothing that
// was made later: the later one is connected when its turn comes, and then the earlier one is over.
func TestEarlierLifeEndsNoLaterEnds(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	half := func() script {
		s.meet()
		s.raw(0, s.packHello(frag.KindHello, 0, frag.ProbeCommand))
		for _, pkt := range s.run(4) {
			s.learn(pkt)
		}
		return *s
	}
	prove := func(h *script) *Endpoint {
		h.hello.Proven = frag.ProvenAll
		s.raw(0, h.packHello(frag.KindHello, h.conn, frag.ProbeCommand))
		s.run(4)
		return endpointOf(l.mods[0].all.Peers.Lookup(h.conn))
	}
	early := half()
	s.reborn(s.hello.Incarnation + 1)
	late := half()
	first := prove(&early)
	if first == nil || !first.Connected() {
		t.Fatalf("the earlier life is not connected: %v", first)
	}
	if second := prove(&late); second == nil || !second.Connected() {
		t.Errorf("the later life is not connected: %v", second)
	}
	if !errors.Is(first.Err(), ErrPeerRestarted) {
		t.Errorf("the earlier life: %v", first.Err())
	}
}
