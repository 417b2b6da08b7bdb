package btl

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/port"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/internal/testenv"
)

// victim is two modules that talk to each other, and a stranger who sends what he likes.
type victim struct {
	*lab
	s    *script
	a, b *Endpoint
	tr   *traffic
	sent int // by the stranger
}

func newVictim(t testing.TB, seed uint64) *victim {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	v := &victim{lab: l, tr: newTraffic(t, seed, 1)}
	l.mods[1].Handle(1, v.tr.receive)
	v.a, v.b = l.pair()
	v.s = l.newScript(1)
	return v
}

// hit sends hostile bytes on a channel to module 1 and checks what must always hold: the state
// (step does), the account of packets, and the size of what comes back before an address is proven.
func (v *victim) hit(channel int, pkt []byte) {
	v.tb.Helper()
	v.sent++
	v.s.raw(channel, pkt)
	replies := v.s.run(2)
	if len(replies) > 1 {
		v.tb.Errorf("%d replies to one packet of %d bytes", len(replies), len(pkt))
	}
	for _, r := range replies {
		if len(r.bytes) > len(pkt) {
			v.tb.Errorf("%d bytes sent, %d came back", len(pkt), len(r.bytes))
		}
	}
}

// survives checks that the connection between the two still works, and that only its own messages
// were delivered.
func (v *victim) survives(t *testing.T) {
	t.Helper()
	for _, size := range []int{8, 1400, 20_000} {
		v.tr.send(v.a, size)
	}
	v.until("delivered", 20*time.Microsecond, 2*time.Second, v.tr.finished)
	v.tr.verify()
	if v.a.Err() != nil || v.b.Err() != nil {
		t.Errorf("the connection ended: %v, %v", v.a.Err(), v.b.Err())
	}
	for i, m := range v.mods {
		if u := unaccounted(m); u != 0 {
			t.Errorf("module %d: %d packets unaccounted for", i, u)
		}
	}
	v.idleFor(5 * time.Second)
	v.wantOneLive(t, v.a, v.b)
	v.wantIdle(1)
}

// Rule 6: random bytes, of all lengths, on both channels.
func TestContract06RandomBytes(t *testing.T) {
	seed := testenv.Seed(t, 61)
	rng := newRand(seed)
	v := newVictim(t, seed)
	buf := make([]byte, 1472)
	for i := range 4000 {
		pkt := buf[:rng.IntN(len(buf)+1)]
		if i%2 == 0 {
			pkt = buf[:rng.IntN(80)]
		}
		for j := range pkt {
			pkt[j] = byte(rng.Uint32())
		}
		if len(pkt) > 2 && i%3 > 0 { // so that some get past the first byte
			pkt[0], pkt[1] = frag.Magic, byte(rng.IntN(3)<<4|rng.IntN(9))
		}
		if len(pkt) > 12 && i%5 > 2 {
			binary.LittleEndian.PutUint64(pkt[4:], uint64(rng.IntN(4)))
		}
		v.hit(i%2, pkt)
	}
	if d := v.mods[1].counted().Drops(); d < 3900 {
		t.Errorf("only %d drops were counted", d)
	}
	v.survives(t)
}

// Rule 6: packets of a live connection with bits turned, cut short, lengthened, on the wrong
// channel. The packets' own numbers and tags are used, so many get deep. The transport has no
// checksum of its own (its fabrics have): payloads that were hit may arrive altered, but nothing
// else may happen.
func TestContract06BitFlips(t *testing.T) {
	seed := testenv.Seed(t, 62)
	rng := newRand(seed)
	for _, mode := range []string{"flip", "cut", "extend", "flip header"} {
		t.Run(mode, func(t *testing.T) { testMutated(t, rng, mode) })
	}
}

func testMutated(t *testing.T, rng *rand.Rand, mode string) {
	cfg := smallConfig()
	cfg.Rules.ResendTimeout = time.Millisecond
	cfg.PeerTimeout = time.Second
	cfg.HandshakeTimeout = 300 * time.Millisecond
	l := newLab(t, mem.Config{}, 2, cfg)
	for _, m := range l.mods {
		m.Handle(1, func(*Endpoint, Tag, []byte) {})
	}
	region, err := l.mods[1].Expose(make([]byte, 20_000), RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	s := l.newScript(1)
	inject := false
	l.net.SetFilter(func(from, to, pkt []byte) mem.Verdict {
		if !inject || rng.IntN(6) > 0 {
			return mem.Deliver
		}
		inject = false // the injected packet passes the filter too
		bad := mutate(rng, mode, pkt)
		l.inject(s, to, bad)
		inject = true
		if rng.IntN(2) == 0 {
			return mem.Drop
		}
		return mem.Deliver
	})
	for round := range 30 {
		a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
		if err != nil {
			t.Fatal(err)
		}
		inject = round > 0
		for range 150 {
			l.randomAct(a, 2+rng.IntN(30), drawSize(rng, 8000), region.Handle())
			l.step(60 * time.Microsecond)
		}
	}
	l.net.SetFilter(nil)
	for _, m := range l.mods {
		for _, ep := range m.endpoints() {
			if ep != nil {
				ep.Abort()
			}
		}
	}
	for range 60 {
		l.step(50 * time.Millisecond)
	}
	for i, m := range l.mods {
		l.wantEmpty(i)
		if u := unaccounted(m); u != 0 {
			t.Errorf("module %d: %d packets unaccounted for", i, u)
		}
	}
	// A connection after all that is as good as new.
	a, b := l.pair()
	l.exchange(0, 1, a, b)
}

func mutate(rng *rand.Rand, mode string, pkt []byte) []byte {
	bad := append([]byte(nil), pkt...)
	switch mode {
	case "cut":
		return bad[:rng.IntN(len(bad))]
	case "extend":
		return append(bad, make([]byte, rng.IntN(1473-len(bad)))...)
	case "flip header":
		for range 1 + rng.IntN(2) {
			bad[rng.IntN(min(len(bad), 56))] ^= 1 << rng.IntN(8)
		}
	default:
		for range 1 + rng.IntN(5) {
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		}
	}
	return bad
}

// Rule 6: a peer that is properly connected and then breaks every rule of the protocol. Nothing it
// does is delivered, acknowledged or kept, and the other connection does not notice.
func TestContract06ConnectedPeerMisbehaves(t *testing.T) {
	v := newVictim(t, testenv.Seed(t, 63))
	s, m := v.s, v.mods[1]
	ep := s.connect()
	s.run(20)
	room := uint32(ep.MTUBytes() - frag.ChunkHeaderBytes)
	good := s.next
	full := make([]byte, room)
	chunk := func(n seq.Num, id, size, offset uint32, payload []byte) func() {
		return func() { s.chunk(n, id, size, offset, payload) }
	}
	header := func(h frag.Header, payload []byte) func() {
		h.Conn = s.conn
		return func() { s.raw(0, encode(h, payload)) }
	}
	for _, c := range []struct {
		name string
		do   func()
		want Counter
	}{
		{"ACK of what was never sent", func() { s.ack(s.peerFirst + 7) }, CntDropAck},
		{"ACK far behind", func() { s.ack(s.peerFirst - 1<<30) }, CntRecvAck},
		{"ACK half way round", func() { s.ack(s.peerFirst + 1<<31 - 2) }, CntDropAck},
		{"chunk beyond its fragment", chunk(good, 1, 100, 90, full[:20]), CntDropMalformed},
		{"chunk of nothing", chunk(good, 1, 100, 0, nil), CntDropMalformed},
		{"chunk off the grid", chunk(good, 1, 9000, 7, full), CntDropMalformed},
		{"short chunk", chunk(good, 1, 9000, 0, full[:100]), CntDropMalformed},
		{"fragment of 4 GiB", chunk(good, 1, 1<<32-1, 0, full), CntDropReassembly},
		{"number below the window", header(frag.Header{Kind: frag.KindFrag, Seq: good - 1, Tag: 1},
			[]byte("old")), CntBelowWindow},
		{"number above the window", header(frag.Header{Kind: frag.KindFrag, Seq: good + 4096, Tag: 1},
			[]byte("far")), CntAboveWindow},
		{"number half way round", header(frag.Header{Kind: frag.KindFrag, Seq: good + 1<<31, Tag: 1},
			[]byte("far")), CntBelowWindow},
		{
			"reserved tag", header(frag.Header{Kind: frag.KindFrag, Seq: good, Tag: 0xF3}, nil),
			CntDropMalformed,
		},
		{"bye with payload", header(frag.Header{Kind: frag.KindFrag, Seq: good, Tag: frag.TagBye},
			[]byte("x")), CntDropMalformed},
		{
			"no handler", header(frag.Header{Kind: frag.KindFrag, Seq: good, Tag: 200}, nil),
			CntDropNoHandler,
		},
		{"put to a made-up region", header(frag.Header{
			Kind: frag.KindFrag, Flags: frag.FlagPut,
			Seq: good, Handle: 1 << 20,
		}, []byte("x")), CntDropAccess},
		{"put whose end wraps", header(frag.Header{
			Kind: frag.KindFrag, Flags: frag.FlagPut, Seq: good,
			PutOffset: 1<<64 - 1,
		}, []byte("xx")), CntDropMalformed},
		{"NACK of what was never sent", header(frag.Header{
			Kind: frag.KindNack, Seq: s.peerFirst + 9,
			Tag: frag.NackNoHandler,
		}, nil), CntRecvNack},
		{"Reject of a live connection", func() {
			b := make([]byte, frag.RejectBytes)
			frag.EncodeReject(b, s.conn, frag.Version,
				frag.Reject{Reason: frag.RejectStale, VersionMin: 2, VersionMax: 2})
			s.raw(0, b)
		}, CntDropHandshake},
		{"hello through the other channel", func() {
			s.raw(1, s.packHello(frag.KindHello, s.conn, 0))
		}, CntDropHandshake},
		{"hello with another tag", func() {
			s.hello.Tag++
			s.raw(0, s.packHello(frag.KindHello, s.conn, 0))
			s.hello.Tag--
		}, CntDropHandshake},
		{"hello of another incarnation", func() {
			s.hello.Incarnation++
			s.raw(0, s.packHello(frag.KindHello, s.conn, 0))
			s.hello.Incarnation--
		}, CntDropHandshake},
		{"hello to another incarnation", func() {
			s.hello.Expected = 12345
			s.raw(0, s.packHello(frag.KindHello, s.conn, 0))
			s.hello.Expected = 0
		}, CntDropHandshake},
		{"connection tag of another generation", func() {
			s.conn ^= 1 << 40
			s.frag(good, 1, nil)
			s.conn ^= 1 << 40
		}, CntDropConn},
		{"connection tag of another slot", func() {
			s.conn ^= 1
			s.frag(good, 1, nil)
			s.conn ^= 1
		}, CntDropConn},
	} {
		before := m.counted()
		held, next := ep.c.Rcv.Held(), ep.c.Rcv.Next()
		c.do()
		pkts := s.run(20)
		if n := m.counted().Get(c.want) - before.Get(c.want); n != 1 {
			t.Errorf("%s: %v went up by %d, want 1", c.name, c.want, n)
		}
		if counter(m, CntDelivered) != before.Get(CntDelivered) || ep.c.Rcv.Held() != held ||
			ep.c.Rcv.Next() != next {
			t.Errorf("%s: it was taken", c.name)
		}
		if len(pkts) > 1 || ep.Err() != nil {
			t.Errorf("%s: %d packets came back, connection: %v", c.name, len(pkts), ep.Err())
		}
	}
	if n := m.all.Pool.ActiveBytes(); n != 0 {
		t.Errorf("%d bytes of reassembly memory are in use", n)
	}
	ep.Abort()
	v.survives(t)
}

// Rule 6: chunks that overlap, contradict each other or come twice never complete a wrong message.
func TestContract06OverlappingChunks(t *testing.T) {
	v := newVictim(t, testenv.Seed(t, 64))
	s, m := v.s, v.mods[1]
	var got [][]byte
	m.Handle(1, func(_ *Endpoint, _ Tag, data []byte) {
		got = append(got, append([]byte(nil), data...))
	})
	ep := s.connect()
	room := uint32(ep.MTUBytes() - frag.ChunkHeaderBytes)
	size := 2*room + 100
	part := func(c byte, n uint32) []byte {
		p := make([]byte, n)
		for i := range p {
			p[i] = c
		}
		return p
	}
	n := s.next
	s.chunk(n, 5, size, 0, part('a', room))
	s.chunk(n+1, 5, size, 0, part('x', room))      // the same place again
	s.chunk(n+1, 5, size+1, room, part('x', room)) // another size
	s.chunk(n+1, 5, size, 2*room, part('x', 99))   // too short for the end
	s.chunk(n, 5, size, 2*room, part('x', 100))    // a number that was used
	s.chunk(n+1, 5, size, 2*room, part('c', 100))  // good
	s.chunk(n+1, 5, size, room, part('x', room))   // number used
	s.chunk(n+2, 5, size, room, part('b', room))   // good: whole
	s.chunk(n+3, 5, size, 0, part('x', room))      // begins another one with the same id
	pkts := s.run(30)
	want := string(part('a', room)) + string(part('b', room)) + string(part('c', 100))
	if len(got) != 1 || string(got[0]) != want {
		t.Fatalf("%d messages were delivered", len(got))
	}
	if seen := acks(pkts); len(seen) == 0 || seen[len(seen)-1] != n+3 {
		t.Errorf("ACKs %v, want up to %d", seen, n+3)
	}
	if d := counter(m, CntDropReassembly); d != 2 {
		t.Errorf("%d chunks were refused, want 2", d)
	}
	ep.Abort() // and the memory of the unfinished one comes back
	if b := m.all.Pool.ActiveBytes(); b != 0 {
		t.Errorf("%d bytes of reassembly memory are in use", b)
	}
}

// Rule 6: a flood of hellos, each of another sender. Half-open endpoints, memory and replies are
// bounded, and the live connection does not notice.
func TestContract06HelloFlood(t *testing.T) {
	v := newVictim(t, testenv.Seed(t, 65))
	m, s := v.mods[1], v.s
	m.all.Peers.Limit(meet.Limits{PerAddress: m.cfg.limits.PeersPerAddress, HalfOpen: 8})
	var first, last runtime.MemStats
	s.hello.Incarnation = 1 << 40
	for i := range 6000 {
		if i == 1000 {
			runtime.GC()
			runtime.ReadMemStats(&first)
		}
		s.hello.Tag = uint64(i) + 1
		s.hello.Incarnation += uint64(i % 2)
		p := frag.Probe(i % frag.ProbeCount)
		if i%7 == 0 {
			s.hello.Expected = 99 // asks for a Reject
		} else {
			s.hello.Expected = 0
		}
		v.hit(probeChannel(p), s.packHello(frag.KindHello, 0, p))
		_, answers := m.all.Port.Inserted()
		byPeer, byAddr := m.all.Peers.Leads()
		if halfOpen(m) > 8 || byPeer > 9 || byAddr > 9 ||
			len(m.endpoints()) > 9 || answers > port.AnswersMax ||
			v.spies[1].inserts() > 2*9+port.AnswersMax {
			t.Fatalf("after %d hellos: %d half-open, %d tags, %d addresses, %d slots, %d guests, %d inserts",
				i, halfOpen(m), byPeer, byAddr, len(m.endpoints()),
				answers, v.spies[1].inserts())
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&last)
	if grown := int64(last.HeapAlloc) - int64(first.HeapAlloc); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if len(v.events[1]) != 1 {
		t.Errorf("the caller was told of %d events", len(v.events[1]))
	}
	v.survives(t)
}

// Rule 6: forged hellos that name a live peer, as another incarnation of it, and replays of its
// own: without the tag that only the peer has seen, nothing happens to its connection.
func TestContract06ForgedHellos(t *testing.T) {
	v := newVictim(t, testenv.Seed(t, 66))
	m, s := v.mods[1], v.s
	peer := v.mods[0]
	s.hello.CommandName, s.hello.DataName = nameOf(peer).Command, nameOf(peer).Data
	for i := range 200 {
		s.hello.Tag = tagOf(v.a) + uint64(i%3)
		s.hello.Incarnation = nameOf(peer).Incarnation + uint64(i%5)
		s.hello.Expected = []uint64{0, nameOf(m).Incarnation}[i%2]
		s.hello.Proven = uint8(i % 4)
		conn := []uint64{0, tagOf(v.b) ^ 1<<50, tagOf(v.b) + 1}[i%3]
		kind := []frag.Kind{frag.KindHello, frag.KindHelloAck}[i%2]
		if kind == frag.KindHelloAck && conn == 0 {
			conn = 1
		}
		p := frag.Probe(i % frag.ProbeCount)
		v.hit(probeChannel(p), s.packHello(kind, conn, p))
		if i%20 == 0 {
			v.tr.send(v.a, 3000)
		}
	}
	for i, ep := range []*Endpoint{v.a, v.b} {
		if ep.Err() != nil || !ep.Connected() || len(v.events[i]) != 1 {
			t.Fatalf("side %d: %v, events %v", i, ep.Err(), v.events[i])
		}
	}
	v.survives(t)
}

// Rule 6: what a stranger can make a module send to a third party is never more than he sends
// himself, packet for packet: replies go to the address that a hello names, not to where it came
// from.
func TestContract06Reflection(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	other := l.newScript(0)
	s.hello.CommandName, s.hello.DataName = other.name[0], other.name[1]
	for i := range 40 {
		s.hello.Tag = uint64(i) + 5
		p := frag.Probe(i % frag.ProbeCount)
		pkt := s.packHello(frag.KindHello, 0, p)
		if i%4 == 3 {
			pkt[1] = pkt[1]&0x0F | 9<<4
		}
		s.raw(probeChannel(p), pkt)
		s.run(2)
		got := other.take()
		if len(got) > 1 || len(got) == 1 && len(got[0].bytes) > len(pkt) {
			t.Errorf("hello %d of %d bytes made %d packets", i, len(pkt), len(got))
		}
	}
	l.idleFor(4 * time.Second)
	l.wantEmpty(0)
	if got := other.take(); len(got) > 0 {
		t.Errorf("%d more packets were sent to an address that was never proven", len(got))
	}
}

// Rule 6: datagrams longer than the buffers, and completions with an error, are counted drops.
func TestContract06TruncatedAndBroken(t *testing.T) {
	cfg := smallConfig()
	cfg.MTUBytes = 600
	l := newLab(t, mem.Config{MTUBytes: 2000}, 1, cfg)
	s := l.newScript(0)
	s.raw(0, append([]byte{frag.Magic, 0x11}, make([]byte, 1500)...))
	s.raw(1, append([]byte{frag.Magic, 0x11}, make([]byte, 599)...))
	s.raw(1, append([]byte{frag.Magic, 0x11}, make([]byte, 598)...))
	s.run(10)
	m := l.mods[0]
	if n := counter(m, CntDropTruncated); n != 2 {
		t.Errorf("%d packets counted as truncated, want 2", n)
	}
	l.spies[0].failRecv = func() bool { return true }
	s.raw(0, []byte("broken"))
	s.run(10)
	if n := counter(m, CntRecvErrors); n != 1 || unaccounted(m) != 0 {
		t.Errorf("%d broken receives, %d unaccounted for", n, unaccounted(m))
	}
}

// A queue that is full of rubbish holds up nobody for ever: it is read away a batch per pass.
func TestContract06QueueFullOfRubbish(t *testing.T) {
	v := newVictim(t, testenv.Seed(t, 67))
	for range 3000 {
		v.s.raw(0, []byte("rubbish"))
		v.s.raw(1, []byte("rubbish"))
	}
	if c := v.net.Counts(); c.Overflowed == 0 {
		t.Fatal("the queue was not full")
	}
	v.survives(t)
	if n := counter(v.mods[1], CntDropMalformed); n < 2000 {
		t.Errorf("only %d drops", n)
	}
}
