package conformance

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/frag"
)

// testAVXfer, model: fabtests functional/av_xfer. Connect, talk, close, connect again, talk again.
// All packets of the first connection come once more during the second one, and are ignored.
func testAVXfer(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	cfg := btl.Config{
		HandshakeTimeout: fx.allow(200 * time.Millisecond),
		CloseTimeout:     fx.allow(300 * time.Millisecond),
	}
	a := &node{l: l, id: 0, at: l.net.station(t)}
	var heard *tap
	a.wrap = func(d fabric.Domain) fabric.Domain {
		heard = newTap(d)
		return heard
	}
	l.nodes = append(l.nodes, a)
	a.boot(cfg)
	b := l.add(cfg)

	first := l.connect(a, b)
	sp := spec{count: 48, size: rankSizes}
	s := l.stream(a, first, b, sp)
	l.allDone("the first connection", s)
	closeInOrder(l, a, first, b, b.accepted()[0])
	heard.open = false
	if _, err := first.Prepare(tagStream, nil); !errors.Is(err, btl.ErrClosed) {
		t.Errorf("a fragment for a closed endpoint: %v", err)
	}

	// Connected again only when both sides have forgotten the first connection, the second one has
	// its place in their tables: only the tags tell them apart.
	l.until("the first connection is forgotten", func() bool {
		here, there := a.mod.Stats(), b.mod.Stats()
		return here.Endpoints == 0 && there.Endpoints == 0
	})
	second := l.connect(a, b)
	if second == first {
		t.Fatal("the endpoint of the first connection was used again")
	}
	l.until("connected there", func() bool { return len(b.accepted()) == 2 })
	s = l.stream(a, second, b, spec{count: 200, size: rankSizes})
	back := l.stream(b, b.accepted()[1], a, sp)
	r := newReplayer(l)
	for _, p := range heard.packets { // a message that comes again fails in node.receive
		r.send(p)
	}
	l.allDone("the second connection, among packets of the first", s, back)
	l.until("half-open connections are gone", func() bool {
		st := b.mod.Stats()
		return st.Endpoints == 1
	})
	if n := len(b.accepted()); n != 2 {
		t.Errorf("%d connections at the peer", n)
	}
	late := uint64(0)
	for _, p := range heard.packets {
		var h frag.Header
		if _, err := frag.Decode(p.data, &h); err != nil {
			t.Errorf("a module sent what is no packet: %v", err)
		} else if h.Kind != frag.KindHello && h.Kind != frag.KindHelloAck {
			late++
		}
	}
	if fx.rough {
		late = 1 // of the others nothing is known
	}
	l.until("late packets are told from those of the second connection", func() bool {
		st := b.mod.Stats()
		return st.Get(btl.CntDropConn) >= late
	})

	closeInOrder(l, b, b.accepted()[1], a, second)
	third := l.connect(b, a) // the other way round
	l.allDone("the third connection", l.stream(b, third, a, sp))
	l.settle()
}

// closeInOrder closes a's endpoint and waits until both sides know.
func closeInOrder(l *lab, a *node, ep *btl.Endpoint, b *node, back *btl.Endpoint) {
	l.t.Helper()
	ep.Close(ep.Now())
	l.until("closed on both sides", func() bool {
		_, here := a.ended(ep)
		_, there := b.ended(back)
		return here && there
	})
	if e, _ := a.ended(ep); e.ev != btl.EventClosed || e.err != nil {
		l.t.Errorf("the side that closed: event %d, %v", e.ev, e.err)
	}
	if e, _ := b.ended(back); e.ev != btl.EventClosed || !errors.Is(e.err, btl.ErrPeerClosed) {
		l.t.Errorf("the other side: event %d, %v", e.ev, e.err)
	}
}

// testMultiClient, model: fabtests functional/rdm_multi_client -C 10. A server outlives ten
// clients, one after the other, at the same address where the network allows that. Every other one
// dies in the middle of traffic in both directions. The sends of the server to a client that is
// gone end once, with an error that says why: where each life has ports of its own, that nobody
// answers, but by chance a later one may have those of a dead one.
func testMultiClient(t *testing.T, fx *fixture) {
	const lives, keepAlive = 10, 50 * time.Millisecond
	timeout := fx.allow(400 * time.Millisecond)
	l := newLab(t, fx, opts{})
	server := l.add(btl.Config{
		KeepAlive: keepAlive, PeerTimeout: timeout, CloseTimeout: timeout,
	})
	cfg := btl.Config{CloseTimeout: timeout}
	client := l.add(cfg)
	lost := btl.ErrPeerDead
	if fx.rebinds {
		lost = btl.ErrPeerRestarted
	}
	var back []*stream
	var addresses []string
	died := map[*btl.Endpoint]bool{}
	for i := range lives {
		if i > 0 {
			client.boot(cfg)
		}
		ep := l.connect(client, server)
		l.until("connected there", func() bool { return len(server.accepted()) == i+1 })
		there := server.accepted()[i]
		name, err := frag.ParseName(client.mod.Name())
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, string(name.Command))
		die := i%2 == 1 && i < lives-1
		count := 60
		if die {
			count = 4000
		}
		s := l.stream(client, ep, server, spec{count: count, size: rankSizes})
		r := l.stream(server, there, client, spec{count: count, size: rankSizes})
		back = append(back, r)
		if die {
			l.until("traffic", func() bool { return s.got > 40 && r.got > 40 })
			client.crash()
			died[there] = true
			continue
		}
		l.allDone(fmt.Sprintf("client %d", i), s, r)
		closeInOrder(l, client, ep, server, there)
		if i < lives-1 {
			client.quit()
		}
	}
	l.until("the server knows that all are gone", func() bool {
		for _, ep := range server.accepted() {
			if _, over := server.ended(ep); !over {
				return false
			}
		}
		return true
	})
	for i, ep := range server.accepted() {
		e, _ := server.ended(ep)
		lost := lost
		if slices.Contains(addresses[i+1:], addresses[i]) && errors.Is(e.err, btl.ErrPeerRestarted) {
			lost = btl.ErrPeerRestarted
		}
		if died[ep] && (e.ev != btl.EventFailed || !errors.Is(e.err, lost)) {
			t.Errorf("client %d died: event %d, %v, want %v", i, e.ev, e.err, lost)
		}
		if died[ep] && !errors.Is(back[i].lastErr, lost) {
			t.Errorf("sends to client %d, which died: %v", i, back[i])
		}
	}
	l.until("no endpoint is left", func() bool {
		st := server.mod.Stats()
		return st.Endpoints == 0
	})
	l.settle()
}

// testStress, model: fabtests functional/rdm_stress. Everybody sends mixed sizes to everybody; one
// process is killed, and one ends without a word. The others' traffic with each other is whole, and
// their sends to the dead end once, with ErrPeerDead.
func testStress(t *testing.T, fx *fixture) {
	const count, dead = 5, 3 // the ranks from dead on
	l := newLab(t, fx, opts{})
	cfg := btl.Config{SendBuffers: 512, PeerTimeout: fx.allow(400 * time.Millisecond)}
	ranks := l.addAll(count, cfg)
	var living, lost []*stream
	for i, from := range ranks {
		for j, to := range ranks {
			if i == j {
				continue
			}
			ep := l.dial(from, to)
			sp := spec{count: 150, size: rankSizes}
			if j >= dead {
				sp.count = 50_000 // more than leave before all have met
			}
			s := l.stream(from, ep, to, sp)
			switch {
			case i < dead && j < dead:
				living = append(living, s)
			case i < dead:
				lost = append(lost, s)
			}
		}
	}
	l.until("traffic", func() bool {
		for _, s := range lost {
			if s.got < 20 {
				return false
			}
		}
		return true
	})
	ranks[3].crash()
	ranks[4].quit()
	l.allDone("the living", living...)
	l.until("the dead are noticed", func() bool {
		for _, s := range lost {
			if _, over := s.from.ended(s.ep); !over {
				return false
			}
		}
		return true
	})
	l.settle()
	for _, s := range lost {
		if !errors.Is(s.lastErr, btl.ErrPeerDead) || s.failed == 0 {
			t.Errorf("to a dead process: %v", s)
		}
		if _, err := s.ep.Prepare(tagStream, nil); !errors.Is(err, btl.ErrPeerDead) {
			t.Errorf("one more message to a dead process: %v", err)
		}
	}
	for _, s := range living {
		if s.ep.Err() != nil {
			t.Errorf("%v: %v", s, s.ep.Err())
		}
	}
}

// testClose, model: the teardown of every program of fabtests, with work outstanding. Whatever way
// a connection ends, every accepted send ends once.
func testClose(t *testing.T, fx *fixture) {
	start := func(t *testing.T, count int) (*lab, *stream, *stream) {
		l := newLab(t, fx, opts{})
		cfg := btl.Config{CloseTimeout: fx.allow(time.Second)}
		a, b := l.add(cfg), l.add(cfg)
		ep := l.connect(a, b)
		l.until("connected there", func() bool { return len(b.accepted()) == 1 })
		s := l.stream(a, ep, b, spec{count: count, size: rankSizes})
		return l, s, l.stream(b, b.accepted()[0], a, spec{count: count, size: rankSizes})
	}
	t.Run("in_order", func(t *testing.T) {
		l, s, back := start(t, 160)
		back.limit = 0
		l.until("all are accepted", func() bool { return s.next == s.count })
		if s.done() {
			t.Error("nothing is outstanding")
		}
		closeInOrder(l, s.from, s.ep, back.from, back.ep)
		if !s.done() || s.failed > 0 {
			t.Errorf("closed in order: %v", s)
		}
		back.limit = -1
		l.settle()
	})
	t.Run("both_at_once", func(t *testing.T) {
		l, s, back := start(t, 2000)
		l.until("traffic", func() bool { return s.got > 50 && back.got > 50 })
		s.ep.Close(s.ep.Now())
		back.ep.Close(back.ep.Now())
		l.until("both have ended", func() bool {
			_, here := s.from.ended(s.ep)
			_, there := back.from.ended(back.ep)
			return here && there && s.out == 0 && back.out == 0
		})
		l.settle()
		for _, s := range []*stream{s, back} {
			if s.failed > 0 && !errors.Is(s.lastErr, btl.ErrPeerClosed) &&
				!errors.Is(s.lastErr, btl.ErrClosed) {
				t.Errorf("closed on both sides: %v", s)
			}
			// What was done when it was sent may have crossed with the other side's end.
			for i := range s.next {
				if s.acked[i] && !s.seen[i] {
					t.Errorf("message %d ended well and has not arrived: %v", i, s)
				}
			}
		}
	})
	t.Run("abort", func(t *testing.T) {
		l, s, back := start(t, 2000)
		l.until("traffic", func() bool { return s.got > 50 && s.out > 0 })
		s.ep.Abort()
		l.until("all have ended", func() bool { _, over := s.from.ended(s.ep); return over })
		l.until("none is out", func() bool { return s.out == 0 })
		if s.failed == 0 || !errors.Is(s.lastErr, btl.ErrClosed) {
			t.Errorf("aborted: %v", s)
		}
		back.from.quit()
		l.settle()
	})
	t.Run("module", func(t *testing.T) {
		l, s, back := start(t, 2000)
		l.until("traffic", func() bool { return s.got > 50 && s.out > 0 })
		s.from.quit()
		if s.out != 0 || s.failed == 0 || !errors.Is(s.lastErr, btl.ErrClosed) {
			t.Errorf("when Close has returned: %v", s)
		}
		back.from.quit()
		l.settle()
	})
	t.Run("drain", func(t *testing.T) {
		l, s, back := start(t, 160)
		back.limit = 0
		l.until("all are accepted", func() bool { return s.next == s.count })
		s.from.mod.Drain(s.from.mod.Now(), btl.Never)
		l.until("drained", s.from.mod.Drained)
		if s.got != s.count || s.out != 0 || s.failed > 0 {
			t.Errorf("when drained: %v", s)
		}
		l.settle()
	})
}

// testPeerDeath, model: the killed peers of fabtests' rdm_stress, and libfabric's ofi_rxd, which
// never noticed. A dead peer is an error within PeerTimeout where there is traffic or KeepAlive,
// and never without; a peer that only sleeps, or that slept itself, is not.
func testPeerDeath(t *testing.T, fx *fixture) {
	const keepAlive = 100 * time.Millisecond
	timeout := fx.allow(500 * time.Millisecond)
	slack := 30 * time.Second // of a machine that does other things
	if fx.virtual {
		slack = timeout
	}
	l := newLab(t, fx, opts{})
	victim := l.add(btl.Config{PeerTimeout: timeout})
	busy := l.add(btl.Config{PeerTimeout: timeout})
	asking := l.add(btl.Config{PeerTimeout: timeout, KeepAlive: keepAlive})
	deaf := l.add(btl.Config{PeerTimeout: timeout})
	friend := l.connect(busy, asking)
	toVictim := map[*node]*btl.Endpoint{}
	for _, n := range []*node{busy, asking, deaf} {
		toVictim[n] = l.connect(n, victim)
	}
	l.settle()

	// Asleep is not dead, whoever sleeps: the peer while it is asked, or the one who asks.
	s := l.stream(busy, toVictim[busy], victim, spec{count: 100, size: rankSizes})
	victim.at.pause(timeout / 2)
	l.allDone("the peer slept", s)
	asking.at.pause(2 * timeout)
	l.run(2*timeout + 2*keepAlive)
	for n, ep := range toVictim {
		if !ep.Connected() {
			t.Fatalf("node %d thinks that a sleeper is dead: %v", n.id, ep.Err())
		}
	}

	// Who asks has a word from it now, and hears of nothing earlier than a time-out after that.
	heard := l.net.now()
	l.allDone("a last word",
		l.stream(asking, toVictim[asking], victim, spec{count: 1, size: rankSizes}))
	victim.crash()
	s = l.stream(busy, toVictim[busy], victim, spec{count: 100, size: rankSizes})
	among := l.stream(busy, friend, asking, spec{count: 100, size: rankSizes})
	l.until("both notice", func() bool {
		return toVictim[busy].Err() != nil && toVictim[asking].Err() != nil
	})
	took := l.net.now().Sub(heard)
	if took < timeout || took > timeout+keepAlive+slack {
		t.Errorf("noticed after %v, the time-out is %v", took, timeout)
	}
	for _, n := range []*node{busy, asking} {
		if e, ok := n.ended(toVictim[n]); !ok || e.ev != btl.EventFailed ||
			!errors.Is(e.err, btl.ErrPeerDead) {
			t.Errorf("node %d: event %d, %v", n.id, e.ev, e.err)
		}
	}
	l.allDone("the friends", among)
	if !toVictim[deaf].Connected() {
		t.Errorf("without traffic and KeepAlive: %v", toVictim[deaf].Err())
	}
	l.settle()
	if s.failed == 0 || s.got > 0 || !errors.Is(s.lastErr, btl.ErrPeerDead) {
		t.Errorf("to the dead: %v", s)
	}
}
