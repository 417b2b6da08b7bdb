package btl

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// The first number in a Hello is the oldest one that the peer has not acknowledged, in every state:
// whoever reads it as news has acknowledged none. An established, confirmed endpoint tells it in
// its answers, with and without its tag in the question, and in the Hellos that it sends itself.
func TestHelloTellsOldestNumber(t *testing.T) {
	cfg := apart()
	cfg.KeepAlive = 200 * time.Millisecond
	l, s := newStranger(t, cfg)
	ep := s.connect()
	if ep.c.ID.Handshake != nil {
		t.Fatal("not confirmed")
	}
	wantFirst := func(what string, kind frag.Kind, want seq.Num) {
		t.Helper()
		for _, conn := range []uint64{0, s.conn} {
			s.raw(0, s.packHello(frag.KindHello, conn, 0))
			got := kinds(s.run(3), frag.KindHelloAck)
			if len(got) != 1 || got[0].hdr.Seq != want {
				t.Errorf("%s, Hello to %#x: %+v, want an answer with first number %d", what, conn, got,
					want)
			}
		}
		// In silence the keep-alive asks by itself.
		var asked []sentPacket
		for range 30 {
			l.step(10 * time.Millisecond)
			asked = append(asked, kinds(s.take(), kind)...)
		}
		if len(asked) == 0 || asked[0].hdr.Seq != want {
			t.Errorf("%s, keep-alive: %+v, want the first number %d", what, asked, want)
		}
	}
	first := s.peerFirst
	if first == 0 {
		t.Fatal("the first number is 0: nothing can be told apart")
	}
	wantFirst("nothing sent", frag.KindHello, first)
	for range 3 {
		sendOrFail(t, ep, 1, []byte("three"))
	}
	wantFirst("three sent", frag.KindHello, first)
	s.ack(first.Add(1))
	wantFirst("two acknowledged", frag.KindHello, first.Add(2))
	s.ack(first.Add(2))
	wantFirst("all acknowledged", frag.KindHello, first.Add(3))
}

// A responder whose peer is established and confirmed already, but that has begun anew itself,
// learns the peer's first number from a Hello of the established endpoint, and both agree.
func TestBeginAnewWithEstablishedPeer(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	got := [2]int{}
	for i, m := range l.mods {
		mustHandle(t, m, func() { got[i]++ })
	}
	// The responder hears the Hellos with cookies, and nothing that returns its tag.
	probes := 0
	l.net.SetFilter(func(from, _ []byte, pkt []byte) mem.Verdict {
		p := &l.mods[0].all.Port
		mine := string(from) == string(p.Command.Name) || string(from) == string(p.Data.Name)
		if mine {
			if probes++; probes > 2*frag.ProbeCount { // without cookies, and with them
				return mem.Drop
			}
		}
		return mem.Deliver
	})
	a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.until("established", time.Microsecond, time.Second, a.Connected)
	if halfOpen(l.mods[1]) != 1 {
		t.Fatalf("%d half-open endpoints at the responder", halfOpen(l.mods[1]))
	}
	l.mods[0].all.Handshakes.OnPacket(&a.c) // which was under way
	ended := []*error{send(t, a, 100), send(t, a, 100)}
	b, err := l.mods[1].Connect(l.now, l.mods[0].Name()) // forgets what the half-open one has learnt
	if err != nil {
		t.Fatal(err)
	}
	if b.c.ID.Handshake == nil || b.c.ID.Handshake.Bound ||
		b.c.ID.Handshake.Offered != tagOf(a) {
		t.Fatalf("the half-open endpoint was not adopted: %+v", b.c.ID.Handshake)
	}
	l.net.SetFilter(deliverAll)
	l.until("connected", 10*time.Microsecond, time.Second, b.Connected)
	if a.Err() != nil || peerTagOf(b) != tagOf(a) || peerTagOf(a) != tagOf(b) {
		t.Fatalf("tags %#x and %#x, error %v", peerTagOf(b), peerTagOf(a), a.Err())
	}
	ended = append(ended, send(t, b, 100))
	l.until("ended", 100*time.Microsecond, 10*time.Second, func() bool {
		for _, e := range ended {
			if errors.Is(*e, errPending) {
				return false
			}
		}
		return true
	})
	for i, e := range ended {
		if *e != nil {
			t.Errorf("message %d: %v", i, *e)
		}
	}
	if got != [2]int{1, 2} {
		t.Errorf("%v delivered, want 1 and 2", got)
	}
	l.settle(time.Second)
	l.wantIdle(0)
	l.wantIdle(1)
}

// The addresses of Rejects leave the fabric in the order in which they came, and each only when the
// sends to it have completed.
func TestRejectAddressesLeave(t *testing.T) {
	l := &lab{
		bench: newBench(t, mem.Config{}, 0, smallConfig()), names: map[string][]byte{},
		rng: newRand(1), hold: true,
	}
	l.add(smallConfig(), "")
	m, spy := l.mods[0], l.spies[0]
	const refused = port.AnswersMax + 6
	var strangers []*script
	for range refused {
		s := l.newScript(0)
		// It expects another life: a Reject is the answer.
		s.hello.Expected = nameOf(m).Incarnation + 1
		s.raw(0, s.packHello(frag.KindHello, 0, 0))
		l.step(10 * time.Microsecond)
		wantPostedInserted(t, spy)
		strangers = append(strangers, s)
	}
	if n := len(spy.eps[0].wait); n != refused || spy.inserts() != refused ||
		len(m.all.Port.Leaving) != 6 {
		t.Fatalf("%d Rejects under way, %d addresses inserted, %d leaving; want %d, %d, 6", n,
			spy.inserts(), len(m.all.Port.Leaving), refused, refused)
	}
	// They complete one by one, the oldest first. All that were posted before an address was left may
	// have been sent to it.
	spy.hold = false
	wait := spy.eps[0].wait
	for done := 1; done <= refused; done++ {
		spy.eps[0].wait = wait[:1]
		l.step(10 * time.Microsecond)
		wait = wait[1:]
		spy.eps[0].wait = wait
		wantPostedInserted(t, spy)
		gone := max(0, min(done-port.AnswersMax+1, 6))
		for i, s := range strangers {
			if in := inserted(spy, s.name[0]); in != (i >= gone) {
				t.Fatalf("after %d completions the address of stranger %d is inserted: %v", done, i, in)
			}
		}
	}
	for i, s := range strangers {
		if got := s.take(); len(got) != 1 || got[0].hdr.Kind != frag.KindReject {
			t.Errorf("stranger %d got %+v", i, got)
		}
	}
	l.wantIdle(0)
}

// wantPostedInserted checks that the addresses of all sends under way are inserted.
func wantPostedInserted(t *testing.T, d *spyDomain) {
	t.Helper()
	for _, e := range d.eps {
		for i := range e.wait {
			to := e.wait[i].send.To
			if to == fabric.AddrUnknown || d.addrs[to-1].inserts == 0 {
				t.Fatalf("address %d was removed before the send to it completed", to)
			}
		}
	}
}

func inserted(d *spyDomain, name []byte) bool {
	for i := range d.addrs {
		if d.addrs[i].name == string(name) {
			return d.addrs[i].inserts > 0
		}
	}
	return false
}

// A peer connects anew while this module's end of the old connection is still closing. Whoever
// connects to it then gets the endpoint that has answered the peer's Hellos already: with two ends
// here the peer would begin anew again and again, because it cannot tell which one it is to take.
func TestConnectFindsHalfOpenBehindClosing(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	old := l.connect(0, 1)
	first := string(nameOf(l.mods[0]).Command)
	l.net.SetFilter(func(from, _ []byte, pkt []byte) mem.Verdict {
		if kind := kindOf(pkt); string(from) == first && kind != frag.KindHello ||
			kind == frag.KindHelloAck {
			return mem.Drop // the goodbye's acknowledgement, and what would prove the new end
		}
		return mem.Deliver
	})
	var closing *Endpoint
	for _, ep := range l.mods[1].endpoints() {
		closing = ep
	}
	closing.Close(l.now)
	l.until("the goodbye", 10*time.Microsecond, time.Second, func() bool { return old.Err() != nil })
	a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.until("half open", 10*time.Microsecond, time.Second, func() bool {
		return halfOpen(l.mods[1]) == 1
	})
	if endpointOf(l.mods[1].all.Peers.ByAddr(first)) != closing {
		t.Fatal("the old connection is not closing any more")
	}
	b, err := l.mods[1].Connect(l.now, l.mods[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	if halfOpen(l.mods[1]) != 0 || b.c.ID.Handshake == nil ||
		b.c.ID.Handshake.Offered != tagOf(a) {
		t.Fatalf("%d half-open endpoints beside the one that connects", halfOpen(l.mods[1]))
	}
	l.net.SetFilter(deliverAll)
	l.until("connected", 10*time.Microsecond, time.Second, func() bool {
		return a.Connected() && b.Connected()
	})
	if peerTagOf(b) != tagOf(a) || peerTagOf(a) != tagOf(b) {
		t.Fatalf("tags %#x and %#x", peerTagOf(b), peerTagOf(a))
	}
	l.until("the old one's end", time.Millisecond, 10*time.Second, func() bool {
		return !slices.Contains(l.mods[1].endpoints(), closing)
	})
	if endpointOf(l.mods[1].all.Peers.ByAddr(first)) != b {
		t.Error("the new connection is not found by its address")
	}
}

// otherLife is the name of another life of a module, at the same address.
func otherLife(t *testing.T, name []byte) []byte {
	t.Helper()
	n, err := frag.ParseName(name)
	if err == nil {
		n.Incarnation++
		name, err = n.Append(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// Connect may name the life of a peer whose half-open endpoint was displaced by a Connect to
// another life: each takes the other's place, and neither displaces itself.
func TestConnectToDisplaced(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	if _, err := l.mods[0].Connect(l.now, l.mods[1].Name()); err != nil {
		t.Fatal(err)
	}
	l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindHelloAck {
			return mem.Drop
		}
		return mem.Deliver
	})
	l.until("half open", 10*time.Microsecond, time.Second, func() bool {
		return halfOpen(l.mods[1]) == 1
	})
	living := l.mods[0].Name()
	other, err := l.mods[1].Connect(l.now, otherLife(t, living))
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.mods[1].Connect(l.now, living)
	if err != nil {
		t.Fatal(err)
	}
	half := halfOpen(l.mods[1])
	if b == other || half != 0 || endpointOf(b.c.ID.Displaced()) != other ||
		other.c.ID.Displaced() != nil {
		t.Errorf("%d half-open, displaced %p and %p", half, b.c.ID.Displaced(), other.c.ID.Displaced())
	}
	if err := l.mods[1].Check(); err != nil {
		t.Fatal(err)
	}
	l.net.SetFilter(deliverAll)
	l.until("connected", 10*time.Microsecond, time.Second, b.Connected)
}

// A Connect names a life of a peer, and then a later life proves itself: it has returned a tag that
// was made when the name was known already. So the named one is over, and an answer of it that
// comes late must not end the connection to the later one.
func TestConnectToEarlierLife(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	earlier := otherLife(t, l.mods[0].Name())
	l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindReject { // which would tell
			return mem.Drop
		}
		return mem.Deliver
	})
	old, err := l.mods[1].Connect(l.now, earlier)
	if err != nil {
		t.Fatal(err)
	}
	l.step(10 * time.Microsecond)
	a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.until("connected", 10*time.Microsecond, time.Second, a.Connected)
	b := endpointOf(l.mods[1].all.Peers.Lookup(peerTagOf(a)))
	l.until("connected there", 10*time.Microsecond, time.Second, b.Connected)
	if !errors.Is(old.Err(), ErrPeerRestarted) ||
		endpointOf(l.mods[1].all.Peers.ByAddr(b.c.ID.Addr)) != b {
		t.Errorf("the connection to the life that is over: %v", old.Err())
	}
	if err := l.mods[1].Check(); err != nil {
		t.Fatal(err)
	}
}

// The end of the peer that has answered, and was told this one's tag, is gone before it was proven:
// closed, or begun again under another tag. The peer says nothing to what comes for it; asked
// without a tag it does.
func TestPeersEndGoneWhileConnecting(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	acks := 0
	l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindHelloAck {
			if acks++; acks > 1 {
				return mem.Drop
			}
		}
		return mem.Deliver
	})
	a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.until("an answer", 10*time.Microsecond, time.Second, func() bool {
		return a.c.ID.Handshake.Bound
	})
	tag := meet.PeerTag{Incarnation: nameOf(l.mods[0]).Incarnation, Tag: tagOf(a)}
	addr := string(nameOf(l.mods[0]).Command)
	gone := l.mods[1].all.Peers.ByPeer(tag, addr)
	if gone == nil || gone.ID.Tag != peerTagOf(a) {
		t.Fatal("the peer's end is not the one that answered")
	}
	a.c.ID.Handshake.Offered = peerTagOf(a) // as by a Hello of that end
	l.mods[1].all.Endings.End(gone, peer.EventFailed, ErrUnreachable)
	l.net.SetFilter(deliverAll)
	l.until("connected", time.Millisecond, time.Second, a.Connected)
	tag.Tag = tagOf(a) // it has begun again
	if b := l.mods[1].all.Peers.ByPeer(tag, addr); b == nil || b.ID.Tag != peerTagOf(a) {
		t.Error("the two ends do not belong together")
	}
}
