package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/share"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

// kindOf is the kind of a packet, 0 if it is none.
func kindOf(pkt []byte) frag.Kind {
	var h frag.Header
	if _, err := frag.Decode(pkt, &h); err != nil {
		return 0
	}
	return h.Kind
}

// deliverAll is the network without faults.
func deliverAll(_, _ []byte, _ []byte) mem.Verdict { return mem.Deliver }

// An owner that has something for others now and then does not put off the end of a dead peer.
func TestDeadPeerWhileSendingToOthers(t *testing.T) {
	l := newLab(t, mem.Config{}, 3, regressConfig())
	ep, other := l.connect(0, 1), l.connect(0, 2)
	mustHandle(t, l.mods[2], func() {})
	l.settle(time.Second)
	dead := l.mods[1]
	l.mods = []*Module{l.mods[0], l.mods[2]}
	ended := send(t, ep, 100)
	start := l.now
	for ep.Err() == nil && l.now.Sub(start) < 10*time.Second {
		l.mods[0].all.At(l.now) // which send takes as the present instant
		send(t, other, 100)
		l.step(0) // at once
		l.step(100 * time.Microsecond)
		next := l.now.Add(900 * time.Millisecond)
		for d := l.mods[0].Deadline(); d < next; d = l.mods[0].Deadline() {
			l.step(max(0, d.Sub(l.now)))
			l.step(100 * time.Microsecond)
		}
		l.now = next // the Deadline was later
	}
	if d := l.now.Sub(start); !errors.Is(*ended, ErrPeerDead) || d > 5500*time.Millisecond {
		t.Errorf("after %v: %v", d, *ended)
	}
	l.mods = append(l.mods, dead)
}

// A handshake that begins long after the latest pass has all its time.
func TestConnectAfterIdleness(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	l.step(time.Millisecond)
	if d := l.mods[0].Deadline(); d != Never {
		t.Fatalf("an idle module's deadline is %d", d)
	}
	l.now = l.now.Add(time.Hour)
	ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.until("connected", 10*time.Microsecond, time.Second, ep.Connected)
}

// The initiator stops confirming when anything but a HelloAck has told it that the peer knows.
func TestConfirmedByAnyPacket(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	acked, confirmations := false, 0
	l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err != nil {
			t.Fatal(err)
		}
		switch {
		case h.Kind == frag.KindAck:
			acked = true
		case h.Kind == frag.KindHello && h.Conn != 0 && acked:
			confirmations++
		case h.Kind == frag.KindHelloAck && acked:
			return mem.Drop
		}
		return mem.Deliver
	})
	ep := l.connect(0, 1)
	for range 100 {
		l.step(10 * time.Millisecond)
	}
	if ep.c.ID.Handshake != nil || !acked || confirmations > 1 {
		t.Errorf("%d confirmations after the first Ack, handshake %+v",
			confirmations, ep.c.ID.Handshake)
	}
}

// The counters tell of a change that came without a packet.
func TestStatsAfterTimer(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	ep := l.connect(0, 1)
	ep.Close(l.now)
	for range 30 {
		l.step(100 * time.Millisecond)
	}
	for i, m := range l.mods {
		if s := m.Stats(); s.Endpoints != 0 || peersOf(m) != 0 {
			t.Errorf("module %d says it has %d endpoints", i, s.Endpoints)
		}
	}
}

// A module whose send buffers are all on their way asks for no pass until a timer is due, and goes
// on when they come back.
func TestDeadlineWhenStarved(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentsMax, cfg.RecvDepth = 256, 256
	l := newLab(t, mem.Config{}, 2, cfg)
	got := 0
	mustHandle(t, l.mods[1], func() { got++ })
	ep := l.connect(0, 1)
	var ended []*error
	for range 200 { // earns credits
		ended = append(ended, send(t, ep, 1000))
	}
	l.settle(time.Second)
	l.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Hold })
	for range 200 {
		ended = append(ended, send(t, ep, 1000))
	}
	for range 10 {
		l.step(time.Microsecond)
	}
	m := l.mods[0]
	if n := len(m.all.Buffers.FreeSegs); n != m.cfg.SendBuffers/share.NewcomersShare ||
		m.all.Sched.Waiting() != 1 {
		t.Fatalf("%d buffers free, %d endpoints ready", n, m.all.Sched.Waiting())
	}
	if d := m.Deadline(); d <= l.now || d == Never {
		t.Errorf("at %d the deadline is %d", l.now, d)
	}
	l.net.SetFilter(deliverAll)
	l.net.Release()
	l.until("all delivered", 10*time.Microsecond, time.Second, func() bool { return got == 400 })
	l.settle(time.Second)
	for _, e := range ended {
		if *e != nil {
			t.Fatal(*e)
		}
	}
	l.wantIdle(0)
}

// With two ends of the peer at work, an endpoint that is connecting deals with one only: what is
// sent to it comes from there.
func TestTwoEndsOfThePeer(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	var from []*Endpoint
	if err := l.mods[0].Handle(3, func(ep *Endpoint, _ Tag, _ []byte) {
		from = append(from, ep)
	}); err != nil {
		t.Fatal(err)
	}
	// Both connect; the last probe's answer is late for both of them.
	held := 0
	l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindHelloAck {
			if held++; held%frag.ProbeCount == 0 {
				return mem.Hold
			}
		}
		return mem.Deliver
	})
	a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.mods[1].Connect(l.now, l.mods[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		l.step(time.Microsecond)
	}
	if a.Connected() || b.Connected() {
		t.Fatal("connected without the last answers")
	}
	b.Abort()
	b, err = l.mods[1].Connect(l.now, l.mods[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.net.SetFilter(deliverAll)
	for range 6 {
		l.step(time.Microsecond)
	}
	l.net.Release()
	l.until("connected anew", 10*time.Microsecond, 2*time.Second, b.Connected)
	ended := send(t, b, 100)
	l.until("ended", 10*time.Microsecond, 10*time.Second, func() bool {
		return !errors.Is(*ended, errPending)
	})
	if *ended != nil || len(from) != 1 || peerTagOf(from[0]) != tagOf(b) {
		t.Errorf("to the new end: %v, delivered %d times (%+v)", *ended, len(from), from)
	}
	for i, m := range l.mods {
		if err := m.oneEach(l.mods[1-i]); err != nil {
			t.Errorf("module %d: %v", i, err)
		}
	}
}

// oneEach proves that of the peer's connected ends no two mean the same endpoint here.
func (m *Module) oneEach(peer *Module) error {
	seen := map[uint64]*Endpoint{}
	for _, ep := range peer.endpoints() {
		if ep == nil || !ep.Connected() {
			continue
		}
		if seen[peerTagOf(ep)] != nil {
			return errors.New("two ends of the peer have the same tag here")
		}
		seen[peerTagOf(ep)] = ep
		if here := endpointOf(m.all.Peers.Lookup(peerTagOf(ep))); here != nil &&
			peerTagOf(here) != tagOf(ep) {
			return errors.New("an end of the peer means an endpoint that means another")
		}
	}
	return nil
}

// A Hello that nobody sent, or that an end sent that is gone, keeps two modules that connect to
// each other, or one to the other, from nothing.
func TestForgedHelloWhileConnecting(t *testing.T) {
	for _, both := range []bool{false, true} {
		for forgedTo := range 2 {
			l := newLab(t, mem.Config{}, 2, regressConfig())
			forgedHello(t, l, forgedTo, both)
		}
	}
}

// wantGets wants the memory of each end to be read by the other one.
func wantGets(t *testing.T, l *lab, ends ...*Endpoint) {
	t.Helper()
	got := 0
	for i, ep := range ends {
		r, err := ends[1-i].mod().Expose(filled(100, 1), RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		get, err := ep.PrepareGet(make([]byte, 100), r.Handle(), 0)
		if err != nil {
			t.Fatal(err)
		}
		get.OnDone = func(_ *Fragment, err error) {
			if got++; err != nil {
				t.Error("get:", err)
			}
			r.Close()
		}
		if _, err := ep.Send(l.now, get); err != nil {
			t.Fatal(err)
		}
	}
	l.until("gets", 10*time.Microsecond, time.Second, func() bool { return got == len(ends) })
}

// wantSettled wants the two ends of each connection of a module to have settled the same, and
// neither side to refuse what the other one sends by it.
func wantSettled(t *testing.T, l *lab, of int) {
	t.Helper()
	pairs := 0
	for _, ep := range l.mods[of].endpoints() {
		if ep == nil {
			continue
		}
		other := endpointOf(l.mods[1-of].all.Peers.Lookup(peerTagOf(ep)))
		if other == nil { // the one that has closed at once
			continue
		}
		if other.c.ID.Agreement != ep.c.ID.Agreement {
			t.Errorf("one end has settled %+v, the other one %+v", ep.c.ID.Agreement, other.c.ID.Agreement)
		}
		pairs++
		for _, end := range []*Endpoint{ep, other} {
			mustHandle(t, end.mod(), func() {})
			send(t, end, 100)
			flushed := false
			end.Flush(l.now, func(error) { flushed = true })
			l.until("flushed", 10*time.Microsecond, time.Second, func() bool { return flushed })
		}
	}
	if pairs == 0 {
		t.Error("no end of a connection has its peer")
	}
	for i, m := range l.mods {
		if n := counter(m, CntDropMalformed); n != 0 {
			t.Errorf("module %d has dropped %d packets as malformed", i, n)
		}
	}
}

func forgedHello(t *testing.T, l *lab, to int, both bool) {
	t.Helper()
	var caught []byte
	l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		if kindOf(pkt) != frag.KindHello {
			return mem.Deliver
		}
		if len(helloIn(t, pkt).CommandCookie) == 0 {
			return mem.Deliver
		}
		if caught == nil {
			caught = append([]byte(nil), pkt...)
		}
		return mem.Drop
	})
	connect := func(from int) *Endpoint {
		ep, err := l.mods[from].Connect(l.now, l.mods[1-from].Name())
		if err != nil {
			t.Fatal(err)
		}
		return ep
	}
	gone := connect(1 - to)
	for range 5 {
		l.step(time.Microsecond)
	}
	gone.Abort()
	l.net.SetFilter(deliverAll)
	a := connect(to)
	l.mods[to].inject(t, caught)
	if a.c.ID.Handshake.Offered != tagOf(gone) {
		t.Fatalf("the forged Hello was not answered as the endpoint: offered %#x",
			a.c.ID.Handshake.Offered)
	}
	var b *Endpoint
	if both {
		b = connect(1 - to)
	}
	l.until("connected", 10*time.Microsecond, time.Second, func() bool {
		return a.Connected() && a.c.ID.Handshake == nil && (b == nil || b.Connected())
	})
	if b != nil { // which has taken over a half-open end
		wantGets(t, l, a, b)
		wantSettled(t, l, to)
	}
	for range 40 {
		l.step(100 * time.Millisecond)
	}
	for i, m := range l.mods {
		l.wantIdle(i)
		// Each connected to one of its own of the other's, or both to each other.
		if n := peersOf(m); n != 1 && (!both || n != 2) {
			t.Errorf("module %d has %d endpoints", i, n)
		}
		if err := m.oneEach(l.mods[1-i]); err != nil {
			t.Errorf("module %d: %v", i, err)
		}
		got := 0
		mustHandle(t, m, func() { got++ })
		from := a
		if i == to {
			if from = b; b == nil {
				from = l.accepted(1 - to)
			}
		}
		ended := send(t, from, 100)
		l.settle(time.Second)
		if *ended != nil || got != 1 {
			t.Errorf("to module %d: %v, %d delivered", i, *ended, got)
		}
	}
}

// inject has a packet arrive on the command channel.
func (m *Module) inject(tb testing.TB, pkt []byte) {
	tb.Helper()
	var h frag.Header
	payload, err := frag.Decode(pkt, &h)
	if err != nil {
		tb.Fatal(err)
	}
	m.all.Count[CntReceived]++
	m.rx.OnHandshake(&m.all.Port.Command, &fabric.Completion{}, &h, payload)
}

// Of two ends of the peer the older one's handshake may be done last, and it may close at once. The
// newer one's endpoint lives on.
func TestOlderEndConnectsLast(t *testing.T) {
	for _, keepAlive := range []time.Duration{-1, 200 * time.Millisecond} {
		cfg := regressConfig()
		cfg.KeepAlive = keepAlive
		l := newLab(t, mem.Config{}, 2, cfg)
		got := 0
		mustHandle(t, l.mods[0], func() { got++ })
		old, err := l.mods[1].Connect(l.now, l.mods[0].Name())
		if err != nil {
			t.Fatal(err)
		}
		l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
			if kindOf(pkt) == frag.KindHello {
				return mem.Hold
			}
			return mem.Deliver
		})
		late := send(t, old, 100)
		l.step(time.Microsecond)
		old.Close(l.now)
		l.net.SetFilter(deliverAll)
		young := l.connect(1, 0)
		if young == old {
			t.Fatal("the same end")
		}
		l.net.Release()
		l.until("the old end has closed", 10*time.Microsecond, 2*time.Second, func() bool {
			return old.Err() != nil
		})
		for range 60 {
			l.step(50 * time.Millisecond)
		}
		ended := send(t, young, 100)
		l.until("ended", 10*time.Microsecond, 10*time.Second, func() bool {
			return !errors.Is(*ended, errPending)
		})
		if *late != nil || *ended != nil || got != 2 {
			t.Errorf("%v: old end's message: %v, the young one's: %v, %d delivered", keepAlive, *late,
				*ended, got)
		}
		l.settle(time.Second)
		l.wantIdle(0)
	}
}

// A superseded endpoint whose own handshake is confirmed late still ends.
func TestSupersededWhileUnconfirmed(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindAck {
			return mem.Drop
		}
		return mem.Deliver
	})
	a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.until("connected here", time.Microsecond, time.Second, a.Connected)
	if a.c.ID.Handshake == nil {
		t.Fatal("confirmed already")
	}
	l.mods[0].all.Timers.Watches.Supersede(&a.c)
	l.mods[0].all.Handshakes.OnPacket(&a.c)
	dead := l.mods[1]
	l.mods = l.mods[:1]
	for range 70 {
		l.step(100 * time.Millisecond)
	}
	if !errors.Is(a.Err(), ErrPeerDead) {
		t.Errorf("the superseded endpoint: %v", a.Err())
	}
	l.mods = append(l.mods, dead)
}

// A Flush behind a fragment that turns out to be too large waits for what is before that.
func TestFlushBehindTooLarge(t *testing.T) {
	small := regressConfig()
	small.FragmentBytesMax = 1 << 12
	l := newLab(t, mem.Config{}, 1, regressConfig())
	l.add(small, "")
	got := 0
	mustHandle(t, l.mods[1], func() { got++ })
	ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	fits := send(t, ep, 100)
	large := send(t, ep, 1<<14)
	flushed := false
	ep.Flush(l.now, func(err error) {
		if flushed = true; err != nil || *fits != nil || got != 1 {
			t.Errorf("flushed with %v; the message before it: %v, %d delivered", err, *fits, got)
		}
	})
	l.until("flushed", 10*time.Microsecond, time.Second, func() bool { return flushed })
	if !errors.Is(*large, ErrTooLarge) {
		t.Errorf("the one too large: %v", *large)
	}
}

// A module's own Hello, sent back by somebody, ends nothing; nor does a Reject of one who has
// answered.
func TestReflectedHello(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	var hello []byte
	l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		if hello == nil {
			hello = append([]byte(nil), pkt...)
		}
		return mem.Drop
	})
	ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.step(time.Microsecond)
	l.mods[0].inject(t, hello)
	l.net.SetFilter(func(_, to []byte, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindHelloAck && string(to) == string(nameOf(l.mods[0]).Data) {
			return mem.Drop
		}
		return mem.Deliver
	})
	l.until("bound", time.Millisecond, time.Second, func() bool { return ep.c.ID.Handshake.Bound })
	reject := make([]byte, frag.RejectBytes)
	frag.EncodeReject(reject, tagOf(ep), frag.Version,
		frag.Reject{
			Reason: frag.RejectStale, VersionMin: frag.Version, VersionMax: frag.Version,
			Nonce: ep.c.ID.Handshake.Nonces[0],
		})
	l.mods[0].inject(t, reject)
	l.net.SetFilter(deliverAll)
	l.until("connected", time.Millisecond, time.Second, ep.Connected)
}

// A proof of an earlier life of the peer that comes late ends nothing of the present one.
func TestLateProofOfEarlierLife(t *testing.T) {
	for _, byName := range []bool{true, false} {
		for _, connected := range []bool{true, false} {
			l := newLab(t, mem.Config{}, 1, regressConfig())
			dead := l.add(regressConfig(), "place")
			var proof []byte
			l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
				var h frag.Header
				if _, err := frag.Decode(pkt, &h); err != nil || h.Conn == 0 ||
					h.Kind == frag.KindHelloAck || h.Kind == frag.KindRetry {
					return mem.Deliver
				}
				if h.Kind == frag.KindHello {
					proof = append(proof[:0], pkt...)
				}
				return mem.Drop
			})
			if _, err := l.mods[dead].Connect(l.now, l.mods[0].Name()); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				l.step(50 * time.Microsecond)
			}
			if proof == nil || halfOpen(l.mods[0]) != 1 {
				t.Fatal("no half-open endpoint")
			}
			if err := l.mods[dead].Close(); err != nil {
				t.Fatal(err)
			}
			l.net.SetFilter(deliverAll)
			young := l.add(regressConfig(), "place")
			var ep *Endpoint
			if byName {
				var err error
				if ep, err = l.mods[0].Connect(l.now, l.mods[young].Name()); err != nil {
					t.Fatal(err)
				}
			} else {
				there := l.connect(young, 0)
				ep = endpointOf(l.mods[0].all.Peers.Lookup(peerTagOf(there)))
			}
			if connected {
				l.until("connected", time.Microsecond, time.Second, ep.Connected)
			}
			l.mods[0].inject(t, proof)
			l.until("connected", time.Microsecond, time.Second, func() bool {
				return ep.Connected() || ep.Err() != nil
			})
			for range 80 {
				l.step(50 * time.Millisecond)
			}
			if ep.Err() != nil {
				t.Errorf("by name %v, connected %v: the living connection ended: %v", byName, connected,
					ep.Err())
			}
			l.wantIdle(0)
			if n := peersOf(l.mods[0]); n != 1 {
				t.Errorf("by name %v, connected %v: %d endpoints", byName, connected, n)
			}
		}
	}
}

// An end of the peer that has been told an endpoint's tag, and closes with something to deliver, is
// served though another end proves itself first.
func TestTagToldToAnotherEnd(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	got := 0
	mustHandle(t, l.mods[1], func() { got++ })
	first := uint64(0)
	l.net.SetFilter(func(from, _ []byte, pkt []byte) mem.Verdict {
		var h frag.Header
		payload, err := frag.Decode(pkt, &h)
		if err != nil {
			t.Fatal(err)
		}
		var hello frag.Hello
		isHello := h.Kind == frag.KindHello || h.Kind == frag.KindHelloAck
		if isHello && frag.DecodeHello(payload, &hello) != nil {
			t.Fatal("malformed")
		}
		mine := hello.Incarnation == nameOf(l.mods[0]).Incarnation
		switch {
		case h.Kind == frag.KindHello && h.Conn == 0 && !mine:
			return mem.Hold // the other side's own are slow
		case h.Kind == frag.KindHello && h.Conn == 0 && first == 0:
			first = hello.Tag
		case isHello && mine && h.Conn != 0 && hello.Tag == first:
			return mem.Hold // what proves the first end is slow
		case !isHello && string(from) == string(nameOf(l.mods[0]).Command):
			return mem.Hold
		}
		return mem.Deliver
	})
	e, err := l.mods[1].Connect(l.now, l.mods[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.step(time.Microsecond)
	connect := func() *Endpoint {
		ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
		if err != nil {
			t.Fatal(err)
		}
		return ep
	}
	p1 := connect()
	ended := []*error{send(t, p1, 100)}
	p1.Close(l.now)
	l.step(time.Microsecond)
	p2 := connect()
	ended = append(ended, send(t, p2, 100))
	for range 40 {
		l.step(time.Millisecond)
	}
	if e.Err() != nil || peerTagOf(p2) == 0 {
		t.Fatalf("%v, second end proven: %v", e.Err(), peerTagOf(p2) != 0)
	}
	l.net.SetFilter(deliverAll)
	l.net.Release()
	for range 100 {
		l.step(20 * time.Millisecond)
	}
	if *ended[0] != nil || *ended[1] != nil || got != 2 {
		t.Errorf("%v and %v, %d delivered", *ended[0], *ended[1], got)
	}
}
