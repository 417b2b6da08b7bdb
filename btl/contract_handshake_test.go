package btl

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/testenv"
)

// exchange sends a message each way over connected endpoints of modules i and j and checks both.
func (l *lab) exchange(i, j int, a, b *Endpoint) {
	l.tb.Helper()
	for _, d := range []struct {
		from *Endpoint
		to   *Module
	}{{a, l.mods[j]}, {b, l.mods[i]}} {
		tr := newTraffic(l.tb, 99, 42)
		if err := d.to.Handle(42, tr.receive); err != nil {
			l.tb.Fatal(err)
		}
		for _, size := range []int{8, 1400, 20_000} {
			tr.send(d.from, size)
		}
		l.until("exchanged", 20*time.Microsecond, 2*time.Second, tr.finished)
		tr.verify()
	}
}

// live returns the endpoints of module i that are connected.
func (l *lab) live(i int) (eps []*Endpoint) {
	for _, ep := range l.mods[i].endpoints() {
		if ep != nil && ep.Connected() {
			eps = append(eps, ep)
		}
	}
	return eps
}

// helloFilter applies a verdict to handshake packets of one kind and probe in one direction: the
// first n, all if n is negative.
func (l *lab) helloFilter(kind frag.Kind, p frag.Probe, n int, v mem.Verdict) *int {
	hits := new(int)
	l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		var h frag.Header
		payload, err := frag.Decode(pkt, &h)
		if err != nil || h.Kind != kind || n >= 0 && *hits >= n {
			return mem.Deliver
		}
		var retry frag.Retry
		var hello frag.Hello
		if frag.DecodeRetry(payload, &retry) == nil && kind == frag.KindRetry {
			hello.Probe = retry.Probe
		} else if frag.DecodeHello(payload, &hello) != nil {
			return mem.Deliver
		}
		if hello.Probe != p {
			return mem.Deliver
		}
		*hits++
		return v
	})
	return hits
}

// The handshake survives the loss, the doubling and the delay of every kind of its packets, and
// ends with one connection that works both ways.
func TestHandshakeDisturbed(t *testing.T) {
	for _, kind := range []frag.Kind{frag.KindHello, frag.KindHelloAck, frag.KindRetry} {
		for p := range frag.Probe(frag.ProbeCount) {
			for _, v := range []mem.Verdict{mem.Drop, mem.Duplicate, mem.Hold} {
				for _, n := range []int{1, 3} {
					t.Run(fmt.Sprintf("%v/%d/%v/%d", kind, p, v, n), func(t *testing.T) {
						l := newLab(t, mem.Config{}, 2, smallConfig())
						hits := l.helloFilter(kind, p, n, v)
						a := l.connect(0, 1)
						if *hits == 0 {
							t.Error("the filter hit nothing")
						}
						b := l.accepted(1)
						l.net.Release() // what was held comes late
						l.exchange(0, 1, a, b)
						l.settle(time.Second)
						l.wantOne(t, a, b)
					})
				}
			}
		}
	}
}

// wantOne checks that two modules have one connection and told of it once.
func (l *lab) wantOne(t *testing.T, a, b *Endpoint) {
	t.Helper()
	for i, ep := range []*Endpoint{a, b} {
		live := l.live(i)
		if len(live) != 1 || live[0] != ep {
			t.Errorf("module %d has %d connections, want this one", i, len(live))
		}
		if len(l.events[i]) != 1 || l.events[i][0].ev != EventConnected {
			t.Errorf("module %d told of %v", i, l.events[i])
		}
		if halfOpen(l.mods[i]) != 0 {
			t.Errorf("module %d has %d half-open endpoints", i, halfOpen(l.mods[i]))
		}
		l.wantIdle(i)
	}
	if peerTagOf(a) != tagOf(b) || peerTagOf(b) != tagOf(a) {
		t.Error("the two ends are not each other's")
	}
}

// A channel that loses one kind of the handshake's packets is not trusted with data.
func TestHandshakeProvesEveryPath(t *testing.T) {
	for _, kind := range []frag.Kind{frag.KindHello, frag.KindHelloAck, frag.KindRetry} {
		for p := range frag.Probe(frag.ProbeCount) {
			t.Run(fmt.Sprintf("%v/%d", kind, p), func(t *testing.T) {
				cfg := smallConfig()
				cfg.HandshakeTimeout = 500 * time.Millisecond
				l := newLab(t, mem.Config{}, 2, cfg)
				l.helloFilter(kind, p, -1, mem.Drop)
				ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
				if err != nil {
					t.Fatal(err)
				}
				l.until("failed", 200*time.Microsecond, time.Second, func() bool { return ep.Err() != nil })
				l.step(time.Microsecond)
				if !errors.Is(ep.Err(), ErrUnreachable) || len(l.events[0]) != 1 {
					t.Errorf("%v, events %v", ep.Err(), l.events[0])
				}
				answers, not := l.mods[1].told[1-p], l.mods[1].told[p]
				want := fmt.Sprintf("it answers by %x (%s) but not by %x (%s)", answers,
					[]string{"command channel", "data channel"}[1-p], not,
					[]string{"command channel", "data channel"}[p])
				if kind == frag.KindHelloAck {
					want = "the handshake was not finished within 500ms"
				}
				if err := ep.Err(); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
				for range 30 {
					l.step(50 * time.Millisecond)
				}
				l.wantEmpty(0)
				l.wantEmpty(1)
			})
		}
	}
}

// Both sides connect to each other, one of them k passes after the other: they end with one
// connection that each of them got from Connect, and what was sent on it before arrives.
func TestHandshakeSimultaneous(t *testing.T) {
	for _, verdict := range []mem.Verdict{mem.Deliver, mem.Hold, mem.Drop} {
		for lag := range 12 {
			t.Run(fmt.Sprintf("%v/lag=%d", verdict, lag), func(t *testing.T) {
				testSimultaneous(t, verdict, lag)
			})
		}
	}
}

func testSimultaneous(t *testing.T, verdict mem.Verdict, lag int) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	var eps [2]*Endpoint
	var tr [2]*traffic
	var got [2]int // gets that ended well
	var regions [2]*Region
	for i := range tr {
		regions[i], _ = l.mods[i].Expose(filled(100, byte(i)), RemoteAll)
		tr[i] = newTraffic(t, uint64(lag)+3, 1)
		l.mods[1-i].Handle(1, tr[i].receive)
	}
	connect := func(i int) {
		ep, err := l.mods[i].Connect(l.now, l.mods[1-i].Name())
		if err != nil {
			t.Fatal(err)
		}
		eps[i] = ep
		for _, size := range []int{8, 3000} {
			tr[i].send(ep, size)
		}
		ep.Flush(l.now, nil) // its numbers may be others when it is connected
		get, err := ep.PrepareGet(make([]byte, 100), regions[1-i].Handle(), 0)
		if err != nil {
			t.Fatal(err)
		}
		get.OnDone = func(_ *Fragment, err error) {
			if got[i]++; err != nil {
				t.Error("get:", err)
			}
		}
		if _, err := ep.Send(l.now, get); err != nil {
			t.Fatal(err)
		}
	}
	// Every other hello-ack gets the verdict for a while.
	n := 0
	l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		if n++; n < 12 && n%2 == 0 && pkt[1]&0x0F == byte(frag.KindHelloAck) {
			return verdict
		}
		return mem.Deliver
	})
	connect(0)
	for range lag {
		l.step(5 * time.Microsecond)
	}
	connect(1)
	for range 20 {
		l.step(5 * time.Microsecond)
	}
	l.calm()
	l.until("delivered", 20*time.Microsecond, 3*time.Second, func() bool {
		for i, ep := range eps {
			if ep.Err() != nil {
				t.Fatalf("side %d lost its connection: %v", i, ep.Err())
			}
		}
		return tr[0].finished() && tr[1].finished() && got == [2]int{1, 1} &&
			eps[0].c.ID.Handshake == nil && eps[1].c.ID.Handshake == nil
	})
	tr[0].verify()
	tr[1].verify()
	for range 40 {
		l.step(100 * time.Millisecond) // half-open leftovers go
	}
	l.wantOne(t, eps[0], eps[1])
	if ep, err := l.mods[0].Connect(l.now, l.mods[1].Name()); err != nil || ep != eps[0] {
		t.Errorf("another Connect gave another endpoint, %v", err)
	}
}

// Under heavy loss, duplication and reordering a handshake succeeds in its time or fails with
// ErrUnreachable on the side that began it; whatever connects works.
func TestHandshakeUnderChaos(t *testing.T) {
	seed := testenv.Seed(t, 16)
	cfg := smallConfig()
	cfg.HandshakeTimeout, cfg.CloseTimeout = time.Second, 100*time.Millisecond
	cfg.Rules.ResendTimeout, cfg.KeepAlive = 5*time.Millisecond, 100*time.Millisecond
	l := newLab(t, mem.Config{}, 2, cfg)
	connected := 0
	for round := range uint64(40) {
		l.chaos(chaos{loss: 0.2, dup: 0.15, hold: 0.15}, seed+round)
		from := int(round % 2)
		a, err := l.mods[from].Connect(l.now, l.mods[1-from].Name())
		if err != nil {
			t.Fatal(err)
		}
		l.until("connected or given up", 100*time.Microsecond, 2*time.Second, func() bool {
			l.chaosStep()
			return a.Connected() || a.Err() != nil
		})
		l.calm()
		if a.Connected() {
			connected++
			tr := newTraffic(t, seed, 1)
			l.mods[1-from].Handle(1, tr.receive)
			tr.send(a, 8)
			tr.send(a, 5000)
			l.until("delivered", 50*time.Microsecond, time.Second, tr.finished)
			tr.verify()
		}
		a.Close(l.now)
		for range 300 {
			l.step(5 * time.Millisecond)
		}
		l.wantEmpty(0)
		l.wantEmpty(1)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	if connected < 30 {
		t.Errorf("only %d of 40 connected", connected)
	}
}

// A module may connect to itself: messages, puts and the goodbye go round.
func TestHandshakeSelf(t *testing.T) {
	l := newLab(t, mem.Config{}, 1, smallConfig())
	m := l.mods[0]
	tr := newTraffic(t, 1, 1)
	m.Handle(1, tr.receive)
	memory := make([]byte, 5000)
	region, err := m.Expose(memory, RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	ep := l.connect(0, 0)
	for _, size := range []int{0, 8, 1400, 100_000} {
		tr.send(ep, size)
	}
	f, err := ep.PreparePut([]byte("put to myself"), region.Handle(), 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ep.Send(l.now, f); err != nil {
		t.Fatal(err)
	}
	l.until("delivered", 10*time.Microsecond, time.Second, tr.finished)
	tr.verify()
	l.settle(time.Second)
	l.wantIdle(0)
	if string(memory[100:113]) != "put to myself" {
		t.Errorf("region holds %q", memory[100:113])
	}
	ep.Close(l.now)
	l.until("closed", 10*time.Microsecond, 3*time.Second, func() bool {
		return len(l.ends(0, ep)) > 0
	})
	for range 30 {
		l.step(50 * time.Millisecond)
	}
	if ends := l.ends(0, ep); len(ends) != 1 || ends[0].ev != EventClosed || ends[0].err != nil {
		t.Errorf("events %v", ends)
	}
	l.wantEmpty(0)
}

// Close and connect again, many times: each connection is a new one, and nothing is left of the
// old.
func TestReconnect(t *testing.T) {
	cfg := smallConfig()
	cfg.CloseTimeout = 5 * time.Millisecond
	l := newLab(t, mem.Config{}, 2, cfg)
	for i := range 200 {
		from := i % 2
		a := l.connect(from, 1-from)
		b := l.accepted(1 - from)
		if i%50 == 0 {
			l.exchange(from, 1-from, a, b)
		}
		closer := []*Endpoint{a, b}[i/2%2]
		closer.Close(l.now)
		l.until("closed on both sides", 10*time.Microsecond, time.Second, func() bool {
			return a.Err() != nil && b.Err() != nil
		})
		for range 20 {
			l.step(time.Millisecond)
		}
		l.wantEmpty(0)
		l.wantEmpty(1)
		if t.Failed() {
			t.Fatalf("at connection %d", i)
		}
	}
}

// A peer that comes back at the same address as another incarnation: the old connection ends with
// ErrPeerRestarted at once when the new one is proven, ten times over; the newcomer is served.
func TestRestarts(t *testing.T) {
	cfg := smallConfig()
	l := newLab(t, mem.Config{}, 1, cfg)
	var old *Endpoint
	tr := newTraffic(t, 6, 1)
	for i := range 10 {
		k := l.add(cfg, "node")
		l.mods[k].Handle(1, tr.receive)
		a := l.connect(k, 0)
		b := l.accepted(0)
		if old != nil {
			if !errors.Is(old.Err(), ErrPeerRestarted) {
				t.Fatalf("incarnation %d: the old connection has error %v", i, old.Err())
			}
			ends := l.ends(0, old)
			if len(ends) != 1 || ends[0].ev != EventFailed || !errors.Is(ends[0].err, ErrPeerRestarted) {
				t.Errorf("events %v", ends)
			}
		}
		l.exchange(k, 0, a, b)
		l.settle(time.Second)
		l.wantIdle(0)
		if len(l.live(0)) != 1 {
			t.Fatalf("incarnation %d: %d connections", i, len(l.live(0)))
		}
		// The process dies without a word while something is under way to it.
		if err := l.mods[k].Close(); err != nil {
			t.Fatal(err)
		}
		sendOrFail(t, b, 1, make([]byte, 3000))
		old = b
	}
	old.Abort()
	l.step(time.Microsecond)
	l.wantEmpty(0)
}

// Restart noticed by the one who connects: the old name is stale, the new one reaches the new
// incarnation although the connection to the old one still stands.
func TestRestartStaleName(t *testing.T) {
	cfg := smallConfig()
	l := newLab(t, mem.Config{}, 1, cfg)
	k := l.add(cfg, "node")
	stale := l.mods[k].Name()
	old := l.connect(0, k)
	l.mods[k].Close()
	k = l.add(cfg, "node")
	if ep, err := l.mods[0].Connect(l.now, stale); err != nil || ep != old {
		t.Errorf("the connection that stands: %v", err)
	}
	fresh := l.connect(0, k)
	if fresh == old {
		t.Fatal("the old endpoint was returned for the new name")
	}
	if !errors.Is(old.Err(), ErrPeerRestarted) || len(l.ends(0, old)) != 1 {
		t.Errorf("the connection to the old incarnation: %v, events %v", old.Err(), l.ends(0, old))
	}
	l.exchange(0, k, fresh, l.accepted(k))
	ep, err := l.mods[0].Connect(l.now, stale)
	if err != nil {
		t.Fatal(err)
	}
	l.until("refused", 20*time.Microsecond, time.Second, func() bool { return ep.Err() != nil })
	if !errors.Is(ep.Err(), ErrStale) {
		t.Errorf("stale name: %v", ep.Err())
	}
	if fresh.Err() != nil {
		t.Errorf("the connection to the new incarnation ended: %v", fresh.Err())
	}
	l.step(time.Microsecond)
	if again := l.connect(0, k); again != fresh {
		t.Error("the connection was forgotten")
	}
}

// Two sides of different MTU agree on the smaller one, on each channel.
func TestHandshakeMTU(t *testing.T) {
	for _, c := range []struct{ mtu0, tiny0, mtu1, tiny1, mtu, tiny int }{
		{1472, 768, 600, 256, 600, 256},
		{600, 256, 1472, 768, 600, 256},
		{512, 512, 1472, 300, 512, 300},
		{1472, 1472, 1472, 256, 1472, 256},
	} {
		l := newLab(t, mem.Config{}, 0, Config{})
		cfg := smallConfig()
		cfg.MTUBytes, cfg.TinyBytes = c.mtu0, c.tiny0
		l.add(cfg, "")
		cfg.MTUBytes, cfg.TinyBytes = c.mtu1, c.tiny1
		l.add(cfg, "")
		largest := 0
		l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
			if pkt[1]&0x0F < byte(frag.KindHello) {
				largest = max(largest, len(pkt))
			}
			return mem.Deliver
		})
		a, b := l.pair()
		for _, ep := range []*Endpoint{a, b} {
			if ep.MTUBytes() != c.mtu || ep.MaxTiny() != c.tiny-frag.FragHeaderBytes {
				t.Errorf("%+v: MTU %d, tiny %d", c, ep.MTUBytes(), ep.MaxTiny()+frag.FragHeaderBytes)
			}
		}
		l.exchange(0, 1, a, b)
		if largest != c.mtu {
			t.Errorf("%+v: the largest packet had %d bytes", c, largest)
		}
	}
}

// Versions: a hello of another version is refused with this side's versions, as a packet of the
// sender's version; a refusal of this side's hello ends the connection with ErrVersion.
func TestHandshakeVersion(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	hello := s.packHello(frag.KindHello, 0, 0)
	hello[1] = hello[1]&0x0F | 3<<4
	s.raw(0, hello)
	pkts := s.run(3)
	if len(pkts) != 1 || len(pkts[0].bytes) != frag.RejectBytes {
		t.Fatalf("%d packets came back: %+v", len(pkts), pkts)
	}
	b := pkts[0].bytes
	if b[1] != 3<<4|byte(frag.KindReject) || b[3] != frag.RejectVersion || b[32] != 2 || b[33] != 2 {
		t.Errorf("reject % x", b)
	}
	m := l.mods[0]
	if n := counter(m, CntDropVersion); n != 1 {
		t.Errorf("%d drops by version", n)
	}
	for _, pkt := range [][]byte{hello[:100], append([]byte{0xB7, 2<<4 | 1}, make([]byte, 300)...)} {
		s.raw(0, pkt)
		if pkts := s.run(3); len(pkts) != 0 {
			t.Errorf("%d bytes of another version were answered", len(pkt))
		}
	}
	ep, err := m.Connect(m.Now(), s.address())
	if err != nil {
		t.Fatal(err)
	}
	pkts = kinds(s.run(20), frag.KindHello)
	if len(pkts) == 0 {
		t.Fatal("no hello")
	}
	s.learn(pkts[0])
	reject := make([]byte, 64)
	n := frag.EncodeReject(reject, s.conn, frag.Version,
		frag.Reject{
			Reason: frag.RejectVersion, VersionMin: 3, VersionMax: 4,
			Nonce: helloIn(t, pkts[0].bytes).Nonce,
		})
	reject[4] ^= 0xFF // not to this connection
	s.raw(0, reject[:n])
	s.run(3)
	if ep.Err() != nil {
		t.Errorf("a reject of another connection: %v", ep.Err())
	}
	reject[4] ^= 0xFF
	s.raw(0, reject[:n])
	s.run(3)
	if !errors.Is(ep.Err(), ErrVersion) {
		t.Errorf("error %v, want ErrVersion", ep.Err())
	}
	l.wantEmpty(0)
}

// Malformed and foreign names are refused at once.
func TestConnectBadNames(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	m := l.mods[0]
	foreign := frag.Name{
		Provider: "other/net", Incarnation: 1, MTUBytes: 1472, CommandBytes: 768,
		Command: s.name[0], Data: s.name[1],
	}
	other, err := foreign.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign.Provider, foreign.Data = nameOf(m).Provider, []byte("not a name")
	badData, err := foreign.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range [][]byte{
		nil,
		{},
		[]byte("x"), m.Name()[:20], append(m.Name(), 0), other,
		badData,
	} {
		if _, err := m.Connect(m.Now(), name); !errors.Is(err, ErrBadName) {
			t.Errorf("%q: %v, want ErrBadName", name, err)
		}
	}
	l.step(time.Microsecond)
	l.wantEmpty(0)
}
