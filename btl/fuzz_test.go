package btl

import (
	"encoding/binary"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// FuzzModule feeds packets to a live module. The input is a list of packets, each a head byte, a
// length (two bytes, little-endian) and that many bytes:
//
//	bit 0 of the head   the channel
//	bit 1               the bytes are taken as they are; else magic, version and the connection's tag
//	                    are written over them, and the next sequence number of the stranger is added
//	                    to theirs, so that packets get past the first checks
//	bits 2 to 4         passes to give before the next packet
//	bits 5 to 7         virtual time between these passes: 0, 10 us, 1 ms, 30 ms, ...
//
// Whatever comes, the state holds (Check after every pass), every packet is counted once, and a
// connection made afterwards works.
func FuzzModule(f *testing.F) {
	for _, seed := range fuzzSeeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		cfg := smallConfig()
		cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 1<<16, 1<<17
		cfg.HandshakeTimeout, cfg.PeerTimeout = 100*time.Millisecond, 200*time.Millisecond
		cfg.CloseTimeout = 50 * time.Millisecond
		l := newLab(t, mem.Config{QueueDatagrams: 128}, 1, cfg)
		m := l.mods[0]
		m.Handle(1, func(ep *Endpoint, tag Tag, data []byte) { trySend(l, ep, len(data)%3000) })
		if _, err := m.Expose(make([]byte, 5000), RemoteWrite); err != nil {
			t.Fatal(err)
		}
		s := l.newScript(0)
		s.connect()
		feed(l, s, input)
		for _, ep := range m.endpoints() {
			if ep != nil {
				ep.Abort()
			}
		}
		for range 40 {
			l.step(10 * time.Millisecond)
			s.take()
		}
		l.wantEmpty(0)
		if u := unaccounted(m); u != 0 {
			t.Errorf("%d packets unaccounted for", u)
		}
		l.add(cfg, "")
		l.exchange(1, 0, l.connect(1, 0), l.accepted(0))
	})
}

// feed plays a fuzz input.
func feed(l *lab, s *script, input []byte) {
	const packetsMax = 64
	for range packetsMax {
		if len(input) < 3 {
			return
		}
		head, n := input[0], int(binary.LittleEndian.Uint16(input[1:]))
		input = input[3:]
		n = min(n, len(input), 1472)
		pkt := append([]byte(nil), input[:n]...)
		input = input[n:]
		if head&2 == 0 && n >= frag.FragHeaderBytes {
			pkt[0], pkt[1] = frag.Magic, frag.Version<<4|pkt[1]&0x0F
			binary.LittleEndian.PutUint64(pkt[4:], s.conn)
			seq := binary.LittleEndian.Uint32(pkt[16:])
			binary.LittleEndian.PutUint32(pkt[16:], seq+uint32(s.next))
			if pkt[2]&byte(frag.FlagAck) != 0 {
				ack := binary.LittleEndian.Uint32(pkt[20:])
				binary.LittleEndian.PutUint32(pkt[20:], ack+uint32(s.peerFirst)-1)
			}
		}
		s.raw(int(head&1), pkt)
		span := []time.Duration{0, 10 * time.Microsecond, time.Millisecond, 30 * time.Millisecond}
		for range head >> 2 & 7 {
			l.step(span[head>>5&3])
			s.take()
		}
	}
}

// fuzzSeeds are inputs of every kind of packet, with numbers relative to the connection's.
func fuzzSeeds() [][]byte {
	item := func(head byte, pkt []byte) []byte {
		b := binary.LittleEndian.AppendUint16([]byte{head}, uint16(len(pkt)))
		return append(b, pkt...)
	}
	one := func(head byte, h frag.Header, payload []byte) []byte {
		h.Conn = 1
		return item(head, encode(h, payload))
	}
	room := 1472 - frag.ChunkHeaderBytes
	chunk := func(offset, size int) frag.Header {
		return frag.Header{
			Kind: frag.KindChunk, Tag: 1, FragID: 7, SizeBytes: uint32(size),
			OffsetBytes: uint32(offset),
		}
	}
	var talk []byte
	for i := range 4 {
		h := frag.Header{Kind: frag.KindFrag, Tag: 1}
		h.Seq = h.Seq.Add(uint32(i))
		talk = append(talk, one(8, h, make([]byte, 10*i))...)
	}
	second := chunk(room, room+50)
	second.Seq = second.Seq.Add(1)
	bye := frag.Header{Kind: frag.KindFrag, Tag: frag.TagBye}
	var hello, helloAck frag.Header
	body := frag.Hello{
		Incarnation: 1, Tag: 2, CommandName: []byte("mem:\x00\x00\x00\x03"),
		DataName: []byte("mem:\x00\x00\x00\x04"), WindowPkts: 64, FragBytesMax: 1 << 20, MTUBytes: 1472,
		CommandBytes: 768, VersionMin: frag.Version, VersionMax: frag.Version,
	}
	hb, ab := make([]byte, frag.HelloBytesMax), make([]byte, frag.HelloBytesMax)
	hello.Kind, helloAck.Kind, helloAck.Conn = frag.KindHello, frag.KindHelloAck, 1
	hb = hb[:body.Encode(hb, &hello)]
	ab = ab[:body.Encode(ab, &helloAck)]
	return [][]byte{
		nil,
		talk,
		one(9, chunk(0, room+50), make([]byte, room)),
		append(one(9, chunk(0, room+50), make([]byte, room)), one(9, second, make([]byte, 50))...),
		one(8, frag.Header{Kind: frag.KindAck, Flags: frag.FlagAck, Credit: 10}, nil),
		one(8, frag.Header{Kind: frag.KindAck, Flags: frag.FlagAck, Ack: 1000}, nil),
		one(8, frag.Header{Kind: frag.KindNack, Tag: frag.NackNoHandler}, nil),
		one(8, frag.Header{Kind: frag.KindFrag, Flags: frag.FlagPut, Handle: 1 << 16}, []byte("put")),
		append(one(0x68, bye, nil), one(0x68, bye, nil)...),
		item(8, hb), item(8, ab), item(10, hb), item(10, ab),
		item(0x6A, []byte{frag.Magic, 0x31}),
	}
}
