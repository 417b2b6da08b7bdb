package btl

import (
	"fmt"
	"testing"
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Whoever has seen a peer's cookies, or its tags, may say Hello in its name, and worse of it than
// is true. What the peer itself says later counts.
func TestLaterHelloCounts(t *testing.T) {
	t.Run("accepting", func(t *testing.T) {
		_, s := newStranger(t, smallConfig())
		s.meet()
		truth := s.hello
		s.hello.Features, s.hello.MTUBytes, s.hello.Label = 0, truth.MTUBytes-100, []byte("another")
		s.raw(1, s.packHello(frag.KindHello, 0, frag.ProbeData))
		s.run(3)
		s.hello = truth
		s.hello.Features = frag.FeatureOps
		ep := s.connect()
		if !ep.c.ID.Operates || ep.Path().MTUBytesMost != int(truth.MTUBytes) || ep.PeerLabel() != "" {
			t.Errorf("operates %t, %d bytes, label %q", ep.c.ID.Operates, ep.Path().MTUBytesMost,
				ep.PeerLabel())
		}
	})
	for _, early := range []uint8{0, 1 << frag.ProbeCommand, 1 << frag.ProbeData} {
		t.Run(fmt.Sprintf("accepting, with the endpoint's tag, proven %d", early), func(t *testing.T) {
			_, s := newStranger(t, smallConfig())
			s.meet()
			s.hello.Features = frag.FeatureOps
			for p := range frag.Probe(frag.ProbeCount) {
				s.raw(probeChannel(p), s.packHello(frag.KindHello, 0, p))
			}
			for _, pkt := range s.run(3) {
				s.learn(pkt)
			}
			truth := s.hello
			s.hello.Features, s.hello.MTUBytes = 0, truth.MTUBytes-100
			s.raw(1, s.packHello(frag.KindHello, 0, frag.ProbeData))
			s.run(3)
			s.hello.Proven = early // said by who has seen the tag
			s.raw(0, s.packHello(frag.KindHello, s.conn, 0))
			if answers := kinds(s.run(4), frag.KindHelloAck); len(answers) != 1 {
				t.Errorf("%d answers, which the peer may need to get on", len(answers))
			}
			s.hello = truth
			s.hello.Proven = frag.ProvenAll
			s.raw(0, s.packHello(frag.KindHello, s.conn, 0))
			s.run(4)
			ep := endpointOf(s.m.all.Peers.Lookup(s.conn))
			if ep == nil || !ep.Connected() || !ep.c.ID.Operates ||
				ep.Path().MTUBytesMost != int(truth.MTUBytes) {
				t.Errorf("what another has said in the peer's name counts: %+v", ep)
			}
		})
	}
	t.Run("accepting, and a packet before the last Hello", func(t *testing.T) {
		_, s := newStranger(t, smallConfig())
		delivered := 0
		if err := s.m.Handle(1, func(*Endpoint, Tag, []byte) { delivered++ }); err != nil {
			t.Fatal(err)
		}
		s.meet()
		for p := range frag.Probe(frag.ProbeCount) {
			s.raw(probeChannel(p), s.packHello(frag.KindHello, 0, p))
		}
		for _, pkt := range s.run(3) {
			s.learn(pkt)
		}
		truth := s.next
		for _, wrong := range []seq.Num{truth + 1, truth - 1, truth + 1<<20} {
			s.next = wrong
			s.raw(1, s.packHello(frag.KindHello, 0, frag.ProbeData))
			s.run(3)
			s.next = truth
			s.frag(truth, 1, []byte("not yet"))
			s.ack(s.peerFirst)
			s.run(3)
			if ep := endpointOf(s.m.all.Peers.Lookup(s.conn)); ep == nil || ep.Connected() {
				t.Fatalf("a packet, and not a Hello, confirms an endpoint of first number %d", wrong)
			}
		}
		s.hello.Proven = frag.ProvenAll
		s.raw(0, s.packHello(frag.KindHello, s.conn, 0))
		s.run(3)
		s.frag(truth, 1, []byte("now"))
		s.run(4)
		if delivered != 1 {
			t.Errorf("%d messages delivered", delivered)
		}
	})
	t.Run("accepting, and no last Hello", func(t *testing.T) {
		_, s := newStranger(t, smallConfig())
		s.meet()
		for p := range frag.Probe(frag.ProbeCount) {
			s.raw(probeChannel(p), s.packHello(frag.KindHello, 0, p))
		}
		for _, pkt := range s.run(3) {
			s.learn(pkt)
		}
		truth := s.next
		s.next = truth + 7
		s.raw(1, s.packHello(frag.KindHello, 0, frag.ProbeData))
		s.run(3)
		s.next = truth
		var asked []sentPacket
		for range 5 {
			s.frag(truth, 1, []byte("not yet"))
			for _, pkt := range s.run(3) {
				if pkt.hdr.Kind == frag.KindHello {
					asked = append(asked, pkt)
				}
			}
		}
		if len(asked) != 1 || asked[0].hdr.Conn != s.tag {
			t.Fatalf("5 packets are answered by %d Hellos to the peer's tag, want 1", len(asked))
		}
		s.hello.Proven, s.hello.Nonce = frag.ProvenAll, 1
		s.raw(0, s.packHello(frag.KindHelloAck, s.conn, frag.ProbeCommand))
		s.run(3)
		ep := endpointOf(s.m.all.Peers.Lookup(s.conn))
		if ep.Connected() {
			t.Error("confirmed by an answer to nothing")
		}
		s.hello.Nonce = helloIn(t, asked[0].bytes).Nonce
		s.raw(0, s.packHello(frag.KindHelloAck, s.conn, frag.ProbeCommand))
		s.run(3)
		if !ep.Connected() || ep.c.Rcv.Check(truth) != reliability.Accept ||
			ep.c.Rcv.Check(truth-1) == reliability.Accept {
			t.Errorf("connected %t, and counts from another number", ep.Connected())
		}
	})
	t.Run("connecting", func(t *testing.T) {
		l, s := newStranger(t, smallConfig())
		s.hello.Features = frag.FeatureOps
		if _, err := s.m.Connect(l.now, s.address()); err != nil {
			t.Fatal(err)
		}
		hellos := s.run(2)
		for _, pkt := range hellos {
			s.learn(pkt)
		}
		truth := s.hello
		s.hello.Features, s.hello.Nonce, s.hello.Proven = 0, 1, frag.ProbeData.Bit()
		s.raw(0, s.packHello(frag.KindHello, s.conn, frag.ProbeCommand))
		s.run(1)
		ep := endpointOf(s.m.all.Peers.Lookup(s.conn))
		if !ep.c.ID.Handshake.Bound || ep.c.ID.Operates {
			t.Fatal("the first Hello is not believed")
		}
		s.hello = truth
		for _, pkt := range hellos {
			asked := helloIn(t, pkt.bytes)
			s.hello.Proven, s.hello.Nonce = frag.ProvenAll, asked.Nonce
			s.raw(pkt.channel, s.packHello(frag.KindHelloAck, s.conn, asked.Probe))
		}
		if s.run(2); !ep.Connected() || !ep.c.ID.Operates {
			t.Errorf("connected %t, takes operations: %t", ep.Connected(), ep.c.ID.Operates)
		}
	})
}

// The questions that are still missing when a peer's time is over follow soon.
func TestMissingQuestionsFollowSoon(t *testing.T) {
	_, s := newStranger(t, smallConfig())
	ep := s.connect()
	next := func(later time.Duration) time.Duration {
		v := ep.c.Life.Verdict(s.m.all.Clock.Unpaused.Add(later), &s.m.all.Timers.Watches.Rules,
			liveness.Sign, 0)
		return v.Next(time.Hour)
	}
	quiet, after := ep.c.Life.Quiet(s.m.all.Clock.Unpaused),
		ep.c.Life.DeadAfter(&s.m.all.Timers.Watches.Rules)
	if d := next(after - quiet + time.Millisecond); d > s.m.Config().PeerTimeout/8 {
		t.Errorf("the next one %v later", d)
	}
	if d := next(-quiet); d != after {
		t.Errorf("one %v after a sign of life", d)
	}
}

// A timer that was set again, for a sign of life, does not ask for the answer to an operation: the
// next operation sets its own.
func TestTimerSetAgainWatchesNoAnswer(t *testing.T) {
	_, s := newStranger(t, smallConfig())
	ep := s.connect()
	s.m.all.Timers.Watches.WatchAsks(&ep.c)
	s.m.all.Timers.Watches.Resume(&ep.c)
	due := s.m.Deadline()
	s.m.all.Timers.Watches.WatchAsks(&ep.c)
	soon := s.m.Deadline().Sub(s.m.Now())
	if s.m.Deadline() >= due || soon > s.m.all.Timers.Watches.Rules.PressAfter()+time.Millisecond {
		t.Errorf("asks %v from now, and without an operation %v", soon, due.Sub(s.m.Now()))
	}
}

// A superseded peer that owes the answer to an operation is asked for a sign of life as soon as any
// other that does, not after CloseTimeout: the operation waits for its end.
func TestSupersededPeerThatOwesAnAnswer(t *testing.T) {
	cfg := smallConfig()
	cfg.CloseTimeout = time.Hour
	_, s := newStranger(t, cfg)
	ep := s.connect()
	soon := func(when string) {
		t.Helper()
		press := s.m.all.Timers.Watches.Rules.PressAfter()
		if d := s.m.Deadline().Sub(s.m.Now()); d > press+time.Millisecond {
			t.Errorf("%s: asks after %v", when, d)
		}
	}
	s.m.all.Timers.Watches.Supersede(&ep.c)
	s.m.all.Timers.Watches.Resume(&ep.c)
	fetch := frag.Atomic{Action: frag.ActionRead, WidthBytes: 8, Fetch: true}
	o := s.m.all.Remote.AskAtomic(ep.c.Memory(), nil, &fetch, 1)
	ep.c.Remote.Asked(o)
	s.m.all.Timers.Watches.WatchAsks(&ep.c)
	soon("an operation of a superseded endpoint")
	s.m.all.Timers.Watches.Resume(&ep.c)
	soon("superseded while an operation waits")
	ep.c.Remote.Answered(o)
}
