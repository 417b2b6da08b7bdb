package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// requestLab is a module whose owner keeps every connection request, and a module that connects to
// it.
type requestLab struct {
	*lab
	requests []Request
	ep       *Endpoint // of module 1, which connects
}

// newRequestLab makes module 0 keep every request for the time wait, and module 1 connect to it.
func newRequestLab(t *testing.T, wait time.Duration, modules int) *requestLab {
	t.Helper()
	cfg := smallConfig()
	cfg.HandshakeTimeout = 500 * time.Millisecond
	k := &requestLab{lab: newLab(t, mem.Config{}, modules, cfg)}
	k.mods[0].Admit(func(r Request) Verdict {
		k.requests = append(k.requests, r)
		return Keep(wait)
	})
	var err error
	if k.ep, err = k.mods[1].Connect(k.now, k.mods[0].Name()); err != nil {
		t.Fatal(err)
	}
	k.until("kept", 10*time.Microsecond, time.Second, func() bool { return len(k.requests) > 0 })
	k.pass(5 * time.Millisecond)
	return k
}

// pass lets some time pass.
func (k *requestLab) pass(d time.Duration) {
	k.tb.Helper()
	for end := k.now.Add(d); k.now < end; {
		k.step(50 * time.Microsecond)
	}
}

func (k *requestLab) decide(v Verdict) {
	k.tb.Helper()
	if err := k.requests[0].Decide(k.now, v); err != nil {
		k.tb.Fatal(err)
	}
}

// hellos counts the handshake packets that module 1 has sent.
func (k *requestLab) hellos() uint64 { return counter(k.mods[1], CntSentControl) }

// A peer whose request is kept sends nothing, longer than its own time-out. It is connected soon
// after the owner accepts, and the owner is asked once.
func TestKeptRequestIsAccepted(t *testing.T) {
	k := newRequestLab(t, 10*time.Second, 2)
	before := k.hellos()
	k.pass(2 * time.Second)
	if after := k.hellos(); after != before {
		t.Errorf("%d packets while the request was kept", after-before)
	}
	if k.ep.Err() != nil || k.ep.Connected() {
		t.Fatalf("connected: %v, %v", k.ep.Connected(), k.ep.Err())
	}
	undecided := k.requests[0].Undecided()
	k.decide(Accept())
	if !undecided || k.requests[0].Undecided() || new(Request).Undecided() {
		t.Error("the request is undecided after the decision, or not before it")
	}
	k.until("connected", 10*time.Microsecond, 20*time.Millisecond, k.ep.Connected)
	if err := k.requests[0].Decide(k.now, Refuse(1)); !errors.Is(err, ErrNoRequest) {
		t.Errorf("decided twice: %v", err)
	}
	if len(k.requests) != 1 {
		t.Errorf("the owner was asked %d times", len(k.requests))
	}
	k.settle(time.Second)
	s := k.mods[0].Stats()
	if kept, decided, lapsed := s.Get(CntRequestsKept), s.Get(CntRequestsDecided),
		s.Get(CntRequestsLapsed); kept != 1 || decided != 1 || lapsed != 0 {
		t.Errorf("counted %d kept, %d decided, %d lapsed", kept, decided, lapsed)
	}
}

// A peer whose kept request is refused learns the owner's code.
func TestKeptRequestIsRefused(t *testing.T) {
	k := newRequestLab(t, 10*time.Second, 2)
	k.decide(Refuse(4711))
	k.until("refused", 10*time.Microsecond, 20*time.Millisecond, func() bool {
		return k.ep.Err() != nil
	})
	var refused *RefusedError
	if !errors.As(k.ep.Err(), &refused) || refused.Code != 4711 || refused.Later {
		t.Errorf("failed with %v", k.ep.Err())
	}
	k.pass(time.Second)
	if got := k.mods[0].Stats(); got.Get(CntRequestsLapsed) != 1 {
		t.Errorf("%d requests lapsed", got.Get(CntRequestsLapsed))
	}
}

// A peer whose request is moved connects to the other module, under the same endpoint, and what was
// sent before goes there. The other module's owner decides.
func TestKeptRequestIsMoved(t *testing.T) {
	k := newRequestLab(t, 10*time.Second, 3)
	asked := 0
	k.mods[2].Admit(func(Request) Verdict { asked++; return Accept() })
	heard := 0
	mustHandle(t, k.mods[2], func() { heard++ })
	send(t, k.ep, 100)
	if err := k.requests[0].Decide(k.now, MoveTo(nil)); !errors.Is(err, ErrBadName) {
		t.Errorf("moved to an empty name: %v", err)
	}
	if err := k.requests[0].Decide(k.now, MoveTo([]byte("no name"))); !errors.Is(err,
		ErrBadName) {
		t.Errorf("moved to no name: %v", err)
	}
	k.decide(MoveTo(k.mods[2].Name()))
	k.until("delivered", 10*time.Microsecond, 50*time.Millisecond, func() bool { return heard == 1 })
	if !k.ep.Connected() || !k.ep.IsModule(k.mods[2].Name()) || k.ep.IsModule(k.mods[0].Name()) {
		t.Errorf("connected: %v, to the other module: %v", k.ep.Connected(),
			k.ep.IsModule(k.mods[2].Name()))
	}
	if asked == 0 || peersOf(k.mods[0]) != 0 {
		t.Errorf("the other owner was asked %d times, %d endpoints here",
			asked, peersOf(k.mods[0]))
	}
	k.settle(time.Second)
}

// A peer that the owner sends to a name that is empty or malformed is refused with code 0. The peer
// is not accepted here.
func TestMovedToNoName(t *testing.T) {
	for _, name := range [][]byte{nil, []byte("no name")} {
		l := newLab(t, mem.Config{}, 2, smallConfig())
		l.mods[0].Admit(func(Request) Verdict { return MoveTo(name) })
		ep, err := l.mods[1].Connect(l.now, l.mods[0].Name())
		if err != nil {
			t.Fatal(err)
		}
		l.until("refused", 10*time.Microsecond, time.Second, func() bool { return ep.Err() != nil })
		var refused *RefusedError
		if !errors.As(ep.Err(), &refused) || refused.Code != 0 {
			t.Errorf("moved to %q: %v", name, ep.Err())
		}
		if n := peersOf(l.mods[0]); n != 0 {
			t.Errorf("moved to %q: %d endpoints", name, n)
		}
	}
}

// A peer follows one move, and no second one.
func TestRequestIsMovedOnce(t *testing.T) {
	k := newRequestLab(t, 10*time.Second, 3)
	k.mods[2].Admit(func(Request) Verdict { return MoveTo(k.mods[0].Name()) })
	k.decide(MoveTo(k.mods[2].Name()))
	k.until("failed", 100*time.Microsecond, 20*time.Millisecond, func() bool {
		return errors.Is(k.ep.Err(), ErrBadName)
	})
	if len(k.requests) != 1 {
		t.Errorf("the first owner was asked %d times", len(k.requests))
	}
}

// An owner that never decides: the request is forgotten at its time, the peer asks again, and it
// fails after KeepMax at the latest.
func TestKeptRequestIsForgotten(t *testing.T) {
	k := newRequestLab(t, 20*time.Second, 2)
	began := k.now
	first := k.requests[0]
	for k.ep.Err() == nil {
		if k.now.Sub(began) > KeepMax+time.Second {
			t.Fatalf("still connecting after %v", k.now.Sub(began))
		}
		k.step(5 * time.Millisecond)
	}
	var refused *RefusedError
	if !errors.As(k.ep.Err(), &refused) || !refused.Later {
		t.Errorf("failed with %v", k.ep.Err())
	}
	if n := len(k.requests); n < 3 || n > 4 || k.requests[1].id == first.id {
		t.Errorf("the owner was asked %d times in %v", n, k.now.Sub(began))
	}
	if err := first.Decide(k.now, Accept()); !errors.Is(err, ErrNoRequest) {
		t.Errorf("decided a forgotten request: %v", err)
	}
}

// A decision reaches the peer although the first packets that tell of it are lost.
func TestDecisionIsRepeated(t *testing.T) {
	k := newRequestLab(t, 10*time.Second, 2)
	lost := 0
	k.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		if frag.Kind(pkt[1]&0x0F) == frag.KindReject && lost < 6 {
			lost++
			return mem.Drop
		}
		return mem.Deliver
	})
	k.decide(Accept())
	k.until("connected", 100*time.Microsecond, 400*time.Millisecond, k.ep.Connected)
	if lost != 6 {
		t.Errorf("%d packets lost", lost)
	}
}

// A decision about a peer that is gone is given up, and nothing of it stays.
func TestDecisionLapses(t *testing.T) {
	k := newRequestLab(t, 10*time.Second, 2)
	k.ep.Abort()
	k.decide(Accept())
	before := counter(k.mods[0], CntSentControl)
	k.pass(11 * time.Second) // the peer would have asked after 10 s by itself
	k.settle(time.Second)
	s := k.mods[0].Stats()
	if s.Get(CntRequestsLapsed) != 1 || peersOf(k.mods[0]) != 0 {
		t.Errorf("%d lapsed, %d endpoints", s.Get(CntRequestsLapsed), peersOf(k.mods[0]))
	}
	// Rounds after 20, 40, 80, 160 and 320 ms at most, by two channels.
	if n := counter(k.mods[0], CntSentControl) - before; n > 10 {
		t.Errorf("%d packets to nobody", n)
	}
	k.wantIdle(0)
}

// A peer that does not know kept requests is put off, asks again, and is let in when the owner has
// decided; the owner is asked once.
func TestKeptRequestOfOtherPeer(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	m := l.mods[0]
	var requests []Request
	m.Admit(func(r Request) Verdict {
		requests = append(requests, r)
		return Keep(time.Second)
	})
	s.meet()
	ask := func() []sentPacket {
		s.raw(0, s.packHello(frag.KindHello, 0, frag.ProbeCommand))
		return s.run(4)
	}
	for range 3 {
		if got := kinds(ask(), frag.KindReject); len(got) != 1 || got[0].hdr.Tag != frag.RejectLater {
			t.Fatalf("answered with %+v", got)
		}
	}
	if err := requests[0].Decide(l.now, Accept()); err != nil {
		t.Fatal(err)
	}
	if got := kinds(s.run(100), frag.KindReject); len(got) != 0 {
		t.Errorf("told of the decision: %+v", got)
	}
	if got := kinds(ask(), frag.KindHelloAck); len(got) != 1 || len(requests) != 1 {
		t.Errorf("answered with %+v, the owner was asked %d times", got, len(requests))
	}
}

// A peer that asks under another label while its request is kept must ask again later. The owner
// is not asked about it until the request is decided.
func TestKeptRequestOfAnotherLabel(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	m := l.mods[0]
	var requests []Request
	m.Admit(func(r Request) Verdict {
		requests = append(requests, r)
		return Keep(time.Second)
	})
	s.meet()
	s.hello.Features = frag.FeatureKept
	for _, want := range []struct {
		label  string
		reason byte
		asked  int
	}{{"good", frag.RejectKept, 1}, {"bad", frag.RejectLater, 1}, {"bad", frag.RejectKept, 2}} {
		s.hello.Label = []byte(want.label)
		s.raw(0, s.packHello(frag.KindHello, 0, frag.ProbeCommand))
		got := kinds(s.run(4), frag.KindReject)
		if len(got) != 1 || got[0].hdr.Tag != want.reason || len(requests) != want.asked {
			t.Fatalf("%+v: asked %d times, answered with %+v", want, len(requests), got)
		}
		if want.reason == frag.RejectLater {
			if err := requests[0].Decide(l.now, Accept()); err != nil {
				t.Fatal(err)
			}
			s.run(4)
		}
	}
}

// Kept requests are bounded, and the owner is told that the next one cannot be kept.
func TestKeptRequestsAreBounded(t *testing.T) {
	cfg := smallConfig()
	cfg.limits.HalfOpenMax = 1 // below the bound of an address
	l, s := newStranger(t, cfg)
	m := l.mods[0]
	var requests []Request
	m.Admit(func(r Request) Verdict {
		requests = append(requests, r)
		return Keep(time.Second)
	})
	s.hello.Features = frag.FeatureKept
	for i := range 5 {
		s.hello.Tag++
		s.meet()
		s.raw(0, s.packHello(frag.KindHello, 0, frag.ProbeCommand))
		got := kinds(s.run(4), frag.KindReject)
		want := byte(frag.RejectKept)
		if i >= cfg.limits.HalfOpenMax {
			want = frag.RejectLater
		}
		may := i < cfg.limits.HalfOpenMax
		if len(got) != 1 || got[0].hdr.Tag != want || requests[i].MayKeep() != may {
			t.Errorf("request %d, a place: %v: answered with %+v", i, requests[i].MayKeep(), got)
		}
	}
	for end := l.now.Add(1100 * time.Millisecond); l.now < end; {
		l.step(time.Millisecond)
	}
	if n := m.all.Handshakes.Kept.Counts; n.Kept != 1 || n.Lapsed != 1 {
		t.Errorf("%+v", n)
	}
}

// Only who has got a Hello of the handshake can make a side wait, and nothing that was sent before
// the owner decided can make it wait again.
func TestKeptRejectIsForged(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	m := l.mods[0]
	name, err := (&frag.Name{
		Provider: nameOf(m).Provider, Incarnation: s.incarnation, MTUBytes: 1472, CommandBytes: 768,
		Command: s.name[0], Data: s.name[1],
	}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := m.Connect(l.now, name)
	if err != nil {
		t.Fatal(err)
	}
	first := helloIn(t, kinds(s.run(4), frag.KindHello)[0].bytes)
	reject := func(code uint16, nonce uint64) {
		b := make([]byte, frag.RejectBytes)
		frag.EncodeReject(b, tagOf(ep), frag.Version, frag.Reject{
			Reason: frag.RejectKept, VersionMin: 2, VersionMax: 2, Code: code, Nonce: nonce,
		})
		s.raw(0, b)
		s.run(2)
	}
	kept := func() bool { return ep.c.ID.Handshake.Kept }
	if reject(5000, first.Nonce+1); kept() {
		t.Error("waits after a Reject without its nonce")
	}
	if reject(5000, first.Nonce); !kept() {
		t.Fatal("does not wait")
	}
	if reject(0, first.Nonce); kept() {
		t.Fatal("waits although the owner has decided")
	}
	if reject(5000, first.Nonce); kept() {
		t.Error("waits again after a late Reject")
	}
}
