package btl

import (
	"bytes"
	"slices"
	"testing"

	"gobtl/btl/internal/landing"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// A wrong guess at what begins ends with the first packet that comes instead, also if the provider
// has not landed it: lone packets are received fast again.
func TestLandingGuessEnds(t *testing.T) {
	b := newNullBench(t, 1472, false, Config{})
	guessAll(b.m)
	got := 0
	b.m.Handle(1, func(*Endpoint, Tag, []byte) { got++ })
	room := segmentRoom(1472, frag.KindChunk)
	next := nullPeerFirst
	receive := func(h frag.Header) {
		h.Conn, h.Seq, h.Tag = tagOf(b.ep), next, 1
		next = next.Add(1)
		b.data.arrive = func(out []fabric.Completion) int {
			b.data.arrive = nil
			b.data.fill(&out[0], func(p []byte) int { return h.Encode(p) + int(h.PayloadLen) })
			return 1
		}
		for range 40 { // so that the data channel is found idle, and rests in between
			b.pass()
		}
	}
	for id := range uint32(2) {
		for i := range uint32(3) {
			receive(frag.Header{
				Kind: frag.KindChunk, FragID: id + 1, SizeBytes: 3 * uint32(room),
				OffsetBytes: i * uint32(room), PayloadLen: uint16(room),
				FirstBytes: uint16(room), ChunkBytes: uint16(room),
			})
		}
	}
	if due := b.m.rx.Direct.Plan.Due(&b.m.all.Port.Data); !due || got != 2 {
		t.Fatalf("%d messages came, a third is expected: %v", got, due)
	}
	const lone = 10
	before := counter(b.m, CntFastReceives)
	for range lone {
		receive(frag.Header{Kind: frag.KindFrag, PayloadLen: 1000})
	}
	if n := counter(b.m, CntFastReceives) - before; n != lone-1 || got != 2+lone {
		t.Errorf("%d of %d lone packets received fast, %d delivered", n, lone, got-2)
	}
	if b.m.rx.Direct.Plan.Due(&b.m.all.Port.Data) {
		t.Error("a chunk is expected still")
	}
	if err := b.m.Check(); err != nil {
		t.Error(err)
	}
}

// The fragment that was expected begins elsewhere, with a packet that has not landed: what comes
// behind it lands in the buffer that it has got.
func TestLandingBeginsElsewhere(t *testing.T) {
	s, got, room := landScript(t)
	part := func(c byte) []byte { return bytes.Repeat([]byte{c}, int(room)) }
	var want []string
	for id := range uint32(2) {
		for i := range uint32(3) {
			s.chunk(s.next, id+1, 3*room, i*room, part('a'+byte(i)))
			s.next++
		}
		want = append(want, string(part('a'))+string(part('b'))+string(part('c')))
		s.run(4)
	}
	s.raw(0, encode(frag.Header{
		Kind: frag.KindChunk, Conn: s.conn, Seq: s.next, Tag: 1, FragID: 3, SizeBytes: 3 * room,
	}, part('d')))
	s.run(4)
	before := counter(s.m, CntLanded)
	s.chunk(s.next+1, 3, 3*room, room, part('e'))
	s.chunk(s.next+2, 3, 3*room, 2*room, part('f'))
	s.run(4)
	want = append(want, string(part('d'))+string(part('e'))+string(part('f')))
	if !slices.Equal(*got, want) {
		t.Fatalf("%d messages came, or altered ones", len(*got))
	}
	if n := counter(s.m, CntLanded) - before; n != 2 {
		t.Errorf("%d of 2 chunks landed", n)
	}
	if err := s.m.Check(); err != nil {
		t.Error(err)
	}
}

// Sizes that repeat, but not always: a wrong guess costs no more than what was guessed.
func TestLandingGuessIsCheap(t *testing.T) {
	s, got, room := landScriptOf(t, landing.OneByOneBytesMin)
	id := uint32(0)
	chunks := uint64(0)
	for range 10 {
		for _, n := range []uint32{4, 4, 9} {
			id++
			for i := range n {
				s.chunk(s.next, id, n*room, i*room, make([]byte, room))
				s.next++
				s.run(1)
			}
			chunks += uint64(n)
			s.run(4)
		}
	}
	if len(*got) != 30 {
		t.Fatalf("%d messages came", len(*got))
	}
	// All but the first of each; that of the second of each size is not guessed.
	if n := counter(s.m, CntLanded); n < chunks-30 {
		t.Errorf("%d of %d chunks landed", n, chunks)
	}
}

// A fragment whose first chunks land, but not in order, may not take the memory that is kept for
// one that is in order.
func TestLandingGuessKeepsReserve(t *testing.T) {
	cfg := smallConfig()
	cfg.MTUBytes = 1472
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 8<<10, 8<<10
	s := newLab(t, mem.Config{MTUBytes: 1472}, 1, cfg).newScript(0)
	s.hello.MTUBytes = 1472
	guessAll(s.m)
	got := 0
	s.m.Handle(1, func(*Endpoint, Tag, []byte) { got++ })
	room := uint32(segmentRoom(s.connect().MTUBytes(), frag.KindChunk))
	s.run(20)
	chunk := func(n seq.Num, id, i uint32) {
		s.chunk(n, id, 2*room, i*room, make([]byte, room))
		s.run(4)
	}
	for id := range uint32(2) {
		chunk(s.next, id+1, 0)
		chunk(s.next+1, id+1, 1)
		s.next = s.next.Add(2)
	}
	if !s.m.rx.Direct.Plan.Due(&s.m.all.Port.Data) {
		t.Fatal("nothing is expected")
	}
	chunk(s.next+2, 3, 0)
	if n := counter(s.m, CntDropReassembly); n != 1 || got != 2 {
		t.Errorf("%d packets refused for want of memory, %d messages", n, got)
	}
	if err := s.m.Check(); err != nil {
		t.Error(err)
	}
}
