package btl

import (
	"bytes"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// script is a peer played by a test: two bare endpoints of the network, every byte in the test's
// hands.
type script struct {
	l    *lab
	dom  fabric.Domain
	ep   [2]fabric.Endpoint // command, data
	name [2][]byte
	to   [2]fabric.Addr // the module's channels
	m    *Module
	got  []sentPacket // all that the module sent, in order

	incarnation, tag uint64
	conn             uint64  // the module's tag for this peer
	next             seq.Num // own sequence number
	peerFirst        seq.Num // the module's first
	credit           uint16
	hello            frag.Hello // what the hellos say
	keepsPings       bool       // the test answers them
}

// sentPacket is what arrived from the module.
type sentPacket struct {
	channel int
	bytes   []byte
	hdr     frag.Header
	payload []byte
}

const scriptBuffers = 512

// newScript opens a peer for module i.
func (l *lab) newScript(i int) *script {
	l.tb.Helper()
	dom, err := l.net.Open(fabric.DomainConfig{Buffers: scriptBuffers})
	if err != nil {
		l.tb.Fatal(err)
	}
	l.tb.Cleanup(func() {
		if err := dom.Close(); err != nil {
			l.tb.Error(err)
		}
	})
	s := &script{l: l, dom: dom, m: l.mods[i], next: 1000, credit: 4096}
	s.incarnation, s.tag = 0xABCD_0000+uint64(len(l.mods)), 0x5C21_0001
	for c := range s.ep {
		if s.ep[c], err = dom.OpenEndpoint(fabric.EndpointConfig{}); err != nil {
			l.tb.Fatal(err)
		}
		s.name[c] = s.ep[c].Name()
		var bufs []fabric.Buf
		for b := range scriptBuffers / 4 {
			bufs = append(bufs, fabric.Buf(1+c*scriptBuffers/4+b))
		}
		if _, err := s.ep[c].Recv(bufs); err != nil {
			l.tb.Fatal(err)
		}
	}
	for c, name := range [][]byte{nameOf(s.m).Command, nameOf(s.m).Data} {
		if s.to[c], err = dom.Insert(name); err != nil {
			l.tb.Fatal(err)
		}
	}
	s.hello = frag.Hello{
		Incarnation: s.incarnation, Tag: s.tag, CommandName: s.name[0], DataName: s.name[1],
		WindowPkts: 4096, FragBytesMax: 1 << 30, AckDelayUs: 50, MTUBytes: 1472, CommandBytes: 768,
		Credit: s.credit, VersionMin: frag.Version, VersionMax: frag.Version, Nonce: 77,
	}
	return s
}

// newStranger is a script for tests that only send rubbish.
func newStranger(tb testing.TB, cfg Config) (*lab, *script) {
	l := newLab(tb, mem.Config{}, 1, cfg)
	return l, l.newScript(0)
}

// raw sends bytes to a channel of the module (0 command, 1 data).
func (s *script) raw(channel int, pkt []byte) {
	s.l.tb.Helper()
	const b = scriptBuffers - 1
	arena := s.dom.Arena()
	n := copy(arena.Bytes(b), pkt)
	send := []fabric.Send{{To: s.to[channel], Buf: b, Len: uint32(n)}}
	if _, err := s.ep[channel].Post(send); err != nil {
		s.l.tb.Fatal(err)
	}
	s.pump()
}

// pump takes what arrived at the script's endpoints, and answers Pings, unless the test does.
func (s *script) pump() {
	s.l.tb.Helper()
	arena := s.dom.Arena()
	var pings []sentPacket
	for c := range s.ep {
		comps := make([]fabric.Completion, 64)
		for {
			n, err := s.ep[c].Poll(comps)
			if err != nil {
				s.l.tb.Fatal(err)
			}
			for _, comp := range comps[:n] {
				if comp.Op != fabric.OpRecv {
					continue
				}
				p := sentPacket{channel: c, bytes: bytes.Clone(arena.Bytes(comp.Buf)[:comp.Len])}
				if p.payload, err = frag.Decode(p.bytes, &p.hdr); err != nil {
					// A Reject of another version is no packet of this one.
					p.hdr = frag.Header{}
				}
				if p.hdr.Kind == frag.KindPing && !s.keepsPings {
					pings = append(pings, p)
				} else {
					s.got = append(s.got, p)
				}
				if _, err := s.ep[c].Recv([]fabric.Buf{comp.Buf}); err != nil {
					s.l.tb.Fatal(err)
				}
			}
			if n == 0 {
				break
			}
		}
	}
	for _, p := range pings {
		s.pong(p)
	}
}

// pong answers a Ping.
func (s *script) pong(ping sentPacket) {
	b := make([]byte, frag.PongBytes)
	h := frag.Header{Kind: frag.KindPong, Conn: s.conn}
	frag.EncodePing(b, &h, frag.NonceOf(ping.payload), len(b))
	s.raw(ping.channel, b)
}

// take returns what came since the last take.
func (s *script) take() []sentPacket {
	s.pump()
	got := s.got
	s.got = nil
	return got
}

// run gives all modules n passes and collects what they send.
func (s *script) run(n int) []sentPacket {
	s.l.tb.Helper()
	for range n {
		s.l.step(10 * time.Microsecond)
		s.pump()
	}
	return s.take()
}

// encode makes a packet.
func encode(h frag.Header, payload []byte) []byte {
	h.PayloadLen = uint16(len(payload))
	if h.Flags&frag.FlagAck != 0 && h.CreditBytes == 0 {
		h.CreditBytes = frag.CreditBytesAll
	}
	if h.Kind == frag.KindChunk && h.ChunkBytes == 0 {
		h.ChunkBytes = scriptRoom
		h.FirstBytes = uint16(min(h.SizeBytes, scriptRoom))
	}
	b := make([]byte, frag.HeaderBytes(h.Kind, h.Flags)+len(payload))
	copy(b[h.Encode(b):], payload)
	return b
}

// scriptRoom is the room of a chunk of the script, where a test says nothing else.
const scriptRoom = 1472 - frag.ChunkHeaderBytes

// packHello makes a Hello or HelloAck of the script.
func (s *script) packHello(kind frag.Kind, conn uint64, p frag.Probe) []byte {
	b := make([]byte, frag.HelloBytesMax)
	h := frag.Header{Kind: kind, Conn: conn, Seq: s.next}
	hello := s.hello
	hello.Probe = p
	return b[:hello.Encode(b, &h)]
}

// meet has the script shown what Hellos without a tag must have: cookies.
func (s *script) meet() {
	s.l.tb.Helper()
	s.hello.CommandCookie, s.hello.DataCookie = nil, nil
	for p := range frag.Probe(frag.ProbeCount) {
		s.raw(probeChannel(p), s.packHello(frag.KindHello, 0, p))
	}
	for _, pkt := range s.run(3) {
		s.learn(pkt)
	}
	if len(s.hello.CommandCookie) == 0 || len(s.hello.DataCookie) == 0 {
		s.l.tb.Fatal("the script was given no cookies")
	}
}

func probeChannel(p frag.Probe) int { return int(p & frag.ProbeData) }

// connect plays the opening side of a handshake.
func (s *script) connect() *Endpoint {
	s.l.tb.Helper()
	s.meet()
	for round := 0; round < 4 && s.hello.Proven != frag.ProvenAll; round++ {
		for p := range frag.Probe(frag.ProbeCount) {
			s.raw(probeChannel(p), s.packHello(frag.KindHello, s.conn, p))
		}
		for _, pkt := range s.run(3) {
			s.learn(pkt)
		}
	}
	s.raw(0, s.packHello(frag.KindHello, s.conn, 0))
	s.run(4)
	ep := endpointOf(s.m.all.Peers.Lookup(s.conn))
	if ep == nil || !ep.Connected() {
		s.l.tb.Fatalf("the script is not connected: %d packets, proven %b", len(s.got), s.hello.Proven)
	}
	return ep
}

// accept plays the side that is connected to, for a module that was given the script's Address.
func (s *script) accept() *Endpoint {
	s.l.tb.Helper()
	for range 200 {
		for _, pkt := range s.run(1) {
			if pkt.hdr.Kind != frag.KindHello {
				continue
			}
			s.learn(pkt)
			asked := helloIn(s.l.tb, pkt.bytes)
			s.hello.Proven, s.hello.Nonce = frag.ProvenAll, asked.Nonce
			s.raw(pkt.channel, s.packHello(frag.KindHelloAck, s.conn, asked.Probe))
		}
		if ep := endpointOf(s.m.all.Peers.Lookup(s.conn)); ep != nil && ep.Connected() &&
			ep.c.ID.Handshake == nil {
			return ep
		}
	}
	s.l.tb.Fatal("the module did not connect to the script")
	return nil
}

// learn takes the module's tag and first number from a Hello or HelloAck.
func (s *script) learn(pkt sentPacket) {
	if pkt.hdr.Kind == frag.KindRetry {
		s.learnCookie(pkt)
		return
	}
	if pkt.hdr.Kind != frag.KindHello && pkt.hdr.Kind != frag.KindHelloAck {
		return
	}
	var h frag.Hello
	if frag.DecodeHello(pkt.payload, &h) != nil {
		s.l.tb.Fatalf("malformed hello %x", pkt.bytes)
	}
	s.conn, s.peerFirst = h.Tag, pkt.hdr.Seq
	if pkt.hdr.Kind == frag.KindHelloAck {
		s.hello.Proven |= h.Probe.Bit()
	}
}

// learnCookie takes the cookie of a Retry.
func (s *script) learnCookie(pkt sentPacket) {
	s.l.tb.Helper()
	var r frag.Retry
	if err := frag.DecodeRetry(pkt.payload, &r); err != nil || probeChannel(r.Probe) != pkt.channel {
		s.l.tb.Fatalf("malformed retry %x: %v", pkt.bytes, err)
	}
	to := &s.hello.CommandCookie
	if r.Probe == frag.ProbeData {
		to = &s.hello.DataCookie
	}
	*to = bytes.Clone(r.Cookie)
}

// helloIn reads the Hello or HelloAck in a packet.
func helloIn(tb testing.TB, pkt []byte) (hello frag.Hello) {
	tb.Helper()
	var h frag.Header
	payload, err := frag.Decode(pkt, &h)
	if err == nil {
		err = frag.DecodeHello(payload, &hello)
	}
	if err != nil {
		tb.Fatalf("no hello: %v", err)
	}
	return hello
}

// address is the script's module name.
func (s *script) address() []byte {
	n := frag.Name{
		Provider: nameOf(s.m).Provider, Incarnation: s.incarnation, MTUBytes: s.hello.MTUBytes,
		CommandBytes: s.hello.CommandBytes, Command: s.name[0], Data: s.name[1],
	}
	b, err := n.Append(nil)
	if err != nil {
		s.l.tb.Fatal(err)
	}
	return b
}

// frag sends a fragment of one packet under number n.
func (s *script) frag(n seq.Num, tag Tag, payload []byte) {
	s.l.tb.Helper()
	s.raw(0, encode(frag.Header{Kind: frag.KindFrag, Conn: s.conn, Seq: n, Tag: uint8(tag)}, payload))
}

// room is that of a chunk between the script and the module.
func (s *script) room() uint32 {
	return uint32(min(int(s.hello.MTUBytes), s.m.all.Port.Data.MTUBytes) - frag.ChunkHeaderBytes)
}

// chunk sends a part of a fragment of size bytes.
func (s *script) chunk(n seq.Num, id, size, offset uint32, payload []byte) {
	s.l.tb.Helper()
	s.raw(1, encode(frag.Header{
		Kind: frag.KindChunk, Conn: s.conn, Seq: n, Tag: 1, FragID: id,
		SizeBytes: size, OffsetBytes: offset,
		FirstBytes: uint16(min(size, s.room())), ChunkBytes: uint16(s.room()),
	}, payload))
}

// ack acknowledges the module's packets up to n.
func (s *script) ack(n seq.Num) {
	s.l.tb.Helper()
	s.raw(0, encode(frag.Header{
		Kind: frag.KindAck, Flags: frag.FlagAck, Conn: s.conn, Ack: n,
		Credit: s.credit, CreditBytes: frag.CreditBytesAll,
	}, nil))
}

// acks returns the numbers acknowledged in packets.
func acks(pkts []sentPacket) []seq.Num {
	var all []seq.Num
	for _, p := range pkts {
		if p.hdr.Flags&frag.FlagAck != 0 {
			all = append(all, p.hdr.Ack)
		}
	}
	return all
}

// kinds returns the packets of one kind.
func kinds(pkts []sentPacket, k frag.Kind) []sentPacket {
	var all []sentPacket
	for _, p := range pkts {
		if p.hdr.Kind == k {
			all = append(all, p)
		}
	}
	return all
}
