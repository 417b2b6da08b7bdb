package btl

import (
	"bytes"
	"slices"
	"testing"

	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/internal/testenv"
)

// pieceScript is a module whose scripted peer sends packs with pieces. Fragments have chunks of
// chunkRoom bytes, the letters of their ids.
type pieceScript struct {
	*script
	in  *Endpoint
	got []string
}

const chunkRoom = 200

func newPieceScript(t *testing.T, cfg Config) *pieceScript {
	t.Helper()
	_, s := newStranger(t, cfg)
	p := &pieceScript{script: s}
	p.handle(1)
	p.in = s.connect()
	s.run(20)
	return p
}

func (p *pieceScript) handle(tag Tag) {
	p.l.tb.Helper()
	err := p.m.Handle(tag, func(_ *Endpoint, _ Tag, data []byte) {
		p.got = append(p.got, string(data))
	})
	if err != nil {
		p.l.tb.Fatal(err)
	}
}

// letters is the content of fragment id.
func letters(id uint32, sizeBytes int) string {
	return string(bytes.Repeat([]byte{'a' + byte(id%26)}, sizeBytes))
}

// pieceHeader is that of the chunk at offset of a fragment of sizeBytes whose first one has
// firstBytes.
func pieceHeader(id, sizeBytes, firstBytes, offset uint32) (h frag.Header, data string) {
	h = frag.Header{
		Kind: frag.KindChunk, Tag: 1, FragID: id, SizeBytes: sizeBytes, OffsetBytes: offset,
		FirstBytes: uint16(firstBytes), ChunkBytes: chunkRoom,
	}
	n := min(chunkRoom, sizeBytes-offset)
	if offset == 0 {
		n = firstBytes
	}
	return h, letters(id, int(n))
}

func pieceRecord(h frag.Header, data string) []byte {
	b := make([]byte, frag.RecordHeaderBytes+frag.PieceExtraBytes+len(data))
	return b[:frag.PutPiece(b, h.Tag, frag.Piece{
		FragID: h.FragID, SizeBytes: h.SizeBytes, OffsetBytes: h.OffsetBytes,
		FirstBytes: h.FirstBytes, ChunkBytes: h.ChunkBytes,
	}, []byte(data))]
}

// pack sends one with number n; its answers are returned.
func (p *pieceScript) pack(n seq.Num, list ...[]byte) []sentPacket {
	p.l.tb.Helper()
	p.raw(1, encode(frag.Header{Kind: frag.KindPack, Conn: p.conn, Seq: n}, slices.Concat(list...)))
	return p.run(20)
}

// chunkAt sends a chunk as a packet of its own.
func (p *pieceScript) chunkAt(n seq.Num, id, sizeBytes, firstBytes, offset uint32) {
	p.l.tb.Helper()
	h, data := pieceHeader(id, sizeBytes, firstBytes, offset)
	h.Conn, h.Seq = p.conn, n
	p.raw(1, encode(h, []byte(data)))
	p.run(5)
}

// middle sends the chunks behind the first one, but the last two.
func (p *pieceScript) middle(n seq.Num, id, sizeBytes, firstBytes uint32) {
	p.l.tb.Helper()
	for at := firstBytes; at+2*chunkRoom < sizeBytes; at += chunkRoom {
		p.chunkAt(n, id, sizeBytes, firstBytes, at)
		n++
	}
}

func (p *pieceScript) want(about string, active int, got ...string) {
	p.l.tb.Helper()
	if !slices.Equal(p.got, got) || p.in.c.Asm.Active() != active {
		p.l.tb.Fatalf("%s: delivered %.9q, %d under way, want %.9q, %d",
			about, p.got, p.in.c.Asm.Active(),
			got, active)
	}
	if err := p.m.Check(); err != nil {
		p.l.tb.Fatal(about, err)
	}
}

// The end of a fragment, a whole one and the beginning of the next share a pack, in whatever order
// the packets come, and each once.
func TestPiecesArrive(t *testing.T) {
	const size = 500
	first := func(id uint32) []byte { return pieceRecord(pieceHeader(id, size, 50, 0)) }
	last := func(id uint32) []byte { return pieceRecord(pieceHeader(id, size, 50, 450)) }
	middle := func(p *pieceScript, n seq.Num, id uint32) {
		p.chunkAt(n, id, size, 50, 50)
		p.chunkAt(n+1, id, size, 50, 250)
	}
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 2, 0, 3, 1}, {2, 2, 4, 1, 3, 1, 0, 0}} {
		p := newPieceScript(t, smallConfig())
		n := p.next
		for _, i := range order {
			switch i {
			case 0:
				p.pack(n, packPayload(record{1, "x"}), first(1))
			case 1:
				middle(p, n+1, 1)
			case 2:
				p.pack(n+3, last(1), packPayload(record{1, "y"}, record{1, "z"}), first(2))
			case 3:
				middle(p, n+4, 2)
			case 4:
				p.pack(n+6, last(2))
			}
		}
		slices.Sort(p.got)
		p.want("all", 0, letters(1, size), letters(2, size), "x", "y", "z")
		p.ack(p.peerFirst - 1)
		if got := p.in.c.Rcv.Next(); got != n+7 {
			t.Errorf("order %v: %d is next, want %d", order, got, n+7)
		}
	}
}

// A pack is taken whole or not at all: if a piece is refused for now, nothing of it counts, and the
// same pack is taken later.
func TestPieceRefusedForNow(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 64<<10, 256<<10
	p := newPieceScript(t, cfg)
	n := p.next
	held := pieceRecord(pieceHeader(7, 60<<10, 50, 0)) // behind a gap it gets what is not kept
	p.pack(n+1, held)
	p.want("another one", 1)
	whole := packPayload(record{1, "x"})
	answers := p.pack(n+2, whole, pieceRecord(pieceHeader(8, 60<<10, 50, 0)))
	p.want("no memory", 1)
	if nacks := kinds(answers, frag.KindNack); len(nacks) != 1 || nacks[0].hdr.Seq != n+2 ||
		nacks[0].hdr.Tag != frag.NackMemory {
		t.Errorf("answers: %+v", answers)
	}
	p.pack(n+2, pieceRecord(pieceHeader(9, 500, 50, 450)), pieceRecord(pieceHeader(8, 60<<10, 50, 0)))
	p.want("no memory for the second piece", 1)
	wrong, data := pieceHeader(7, 60<<10, 60, 0)
	p.pack(n+2, whole, pieceRecord(wrong, data))
	p.want("another grid", 1)
	h, data := pieceHeader(7, 60<<10, 50, 0)
	p.pack(n+2, whole, pieceRecord(h, data))
	p.want("a piece that is here", 1)
	p.pack(n+2, whole)
	p.want("without the piece", 1, "x")
}

// A fragment begins in the pack in which another one ends that has all the memory.
func TestPieceTakesTurns(t *testing.T) {
	const size, first = 2000, 1200
	cfg := smallConfig()
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 2048, 2048
	p := newPieceScript(t, cfg)
	n := p.next
	p.pack(n, pieceRecord(pieceHeader(1, size, first, 0)))
	p.middle(n+1, 1, size, first)
	p.want("the first one", 1)
	begin := pieceRecord(pieceHeader(2, size, first, 0))
	p.pack(n+4, pieceRecord(pieceHeader(1, size, first, size-chunkRoom)), begin)
	p.want("the next one behind a gap", 1)
	p.chunkAt(n+3, 1, size, first, size-2*chunkRoom)
	p.pack(n+4, pieceRecord(pieceHeader(1, size, first, size-chunkRoom)), begin)
	p.want("the next one", 1, letters(1, size))
	p.middle(n+5, 2, size, first)
	p.chunkAt(n+7, 2, size, first, size-2*chunkRoom)
	p.pack(n+8, pieceRecord(pieceHeader(2, size, first, size-chunkRoom)))
	p.want("both", 0, letters(1, size), letters(2, size))
}

// A refused pack that comes again without a piece says that the fragment has failed: what is here
// of it goes, and pieces of it that still come are nothing, but what is with them counts.
func TestPieceRefusedForGood(t *testing.T) {
	const size = 500
	p := newPieceScript(t, smallConfig())
	n := p.next
	p.pack(n, pieceRecord(pieceHeader(1, size, 50, 0)))
	p.want("begun", 1)
	p.l.mods[0].rx.SetHandler(1, nil)
	p.handle(2)
	end := pieceRecord(pieceHeader(1, size, 50, 450))
	nacks := kinds(p.pack(n+3, end, packPayload(record{2, "x"})), frag.KindNack)
	if len(nacks) != 1 || nacks[0].hdr.Tag != frag.NackRecord || nacks[0].payload[0] != 1 {
		t.Fatalf("refused: %+v", nacks)
	}
	p.want("refused", 1)
	p.handle(1)
	p.pack(n+3, packPayload(record{2, "x"}))
	p.want("without the piece", 0, "x")
	h, data := pieceHeader(1, size, 50, 50)
	p.pack(n+1, pieceRecord(h, data), packPayload(record{2, "y"}))
	p.want("a late piece", 0, "x", "y")
	if counter(p.m, CntRecordsDropped) != 1 {
		t.Errorf("%d records dropped", counter(p.m, CntRecordsDropped))
	}
}

// A handler removes that of a piece behind it in the same pack. The piece counts as received, so
// its fragment has it: it becomes whole like another one, is delivered if there is a handler then,
// and is dropped if there is none.
func TestPieceLosesHandler(t *testing.T) {
	const size = 250
	remover := func(p *pieceScript) { // of the handler of 1
		err := p.m.Handle(2, func(*Endpoint, Tag, []byte) { p.m.rx.SetHandler(1, nil) })
		if err != nil {
			p.l.tb.Fatal(err)
		}
	}
	begin, end := pieceRecord(pieceHeader(1, size, 50, 0)), pieceRecord(pieceHeader(1, size, 50, 50))
	t.Run("first", func(t *testing.T) {
		p := newPieceScript(t, smallConfig())
		remover(p)
		n := p.next
		p.pack(n, packPayload(record{2, "x"}), begin)
		p.want("begun", 1)
		p.handle(1)
		p.pack(n+1, end)
		p.want("whole", 0, letters(1, size))
	})
	t.Run("last", func(t *testing.T) {
		p := newPieceScript(t, smallConfig())
		remover(p)
		n := p.next
		p.pack(n, begin)
		p.pack(n+1, packPayload(record{2, "x"}), end)
		p.want("whole, without a handler", 0)
		if n := counter(p.m, CntRecordsDropped); n != 1 {
			t.Errorf("%d records dropped, want 1", n)
		}
	})
}

// A copy of a packet that was refused is refused again, though there is a handler by then: its
// sender has failed the fragment, and the rest of that does not come.
func TestRefusedOnceRefusedAgain(t *testing.T) {
	const size = 250
	begin := pieceRecord(pieceHeader(1, size, 50, 0))
	for name, send := range map[string]func(p *pieceScript, n seq.Num) int{
		"piece": func(p *pieceScript, n seq.Num) int {
			return len(kinds(p.pack(n, begin, packPayload(record{2, "x"})), frag.KindNack))
		},
		"chunk": func(p *pieceScript, n seq.Num) int {
			h, data := pieceHeader(1, size, 50, 0)
			h.Conn, h.Seq = p.conn, n
			p.raw(1, encode(h, []byte(data)))
			return len(kinds(p.run(5), frag.KindNack))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPieceScript(t, smallConfig())
			p.handle(2)
			p.l.mods[0].rx.SetHandler(1, nil)
			n := p.next
			for i := range 2 {
				if nacks := send(p, n); nacks != 1 {
					t.Errorf("copy %d: %d Nacks, want 1", i, nacks)
				}
				p.handle(1)
			}
			p.want("refused twice", 0)
			p.raw(1, encode(frag.Header{Kind: frag.KindFrag, Tag: frag.TagVoid, Conn: p.conn, Seq: n}, nil))
			p.run(5)
			h, data := pieceHeader(1, size, 50, 50)
			h.Conn, h.Seq = p.conn, n+1
			p.raw(1, encode(h, []byte(data)))
			p.run(5)
			p.want("its rest is nothing", 0)
			if got := p.in.c.Rcv.Next(); got != n+2 {
				t.Errorf("%d is next, want %d", got, n+2)
			}
		})
	}
}

// If more fragments are refused than are remembered, those that the receiver has forgotten keep no
// later fragment from their slots: the peer has ended them before it begins the later one.
func TestSlotsOfForgottenRefusals(t *testing.T) {
	v := newVictim(t, testenv.Seed(t, 3))
	s, m := v.s, v.mods[1]
	ep := s.connect()
	s.run(20)
	const forgotten, remembered, size = 3, 1024, 3000
	chunk := func(n seq.Num, id uint32, at uint32) []sentPacket {
		s.raw(1, encode(frag.Header{
			Kind: frag.KindChunk, Conn: s.conn, Seq: n, Tag: 2, FragID: id, SizeBytes: size,
			OffsetBytes: at, FirstBytes: 1000, ChunkBytes: 1000,
		}, make([]byte, 1000)))
		return kinds(s.run(2), frag.KindNack)
	}
	const count = forgotten + remembered
	handler := func(*Endpoint, Tag, []byte) {}
	mustHandleTag(t, m, 2, handler)
	for id := range uint32(count) {
		chunk(s.next.Add(id), id, 0)
	}
	mustHandleTag(t, m, 2, nil)
	for id := range uint32(count) {
		chunk(s.next.Add(count+id), id, 1000)
	}
	mustHandleTag(t, m, 2, handler)
	for id := range uint32(count) {
		s.raw(1, encode(frag.Header{
			Kind: frag.KindFrag, Conn: s.conn, Seq: s.next.Add(count + id), Tag: frag.TagVoid,
		}, nil))
		s.run(2)
	}
	next := s.next.Add(2 * count)
	if ep.c.Rcv.Next() != next || ep.c.Asm.Active() != forgotten {
		t.Fatalf("not as it should be: packet %d is next, want %d; %d fragments are left",
			ep.c.Rcv.Next(), next, ep.c.Asm.Active())
	}
	first := chunk(next, frag.ActiveMax, 0)
	again := chunk(next, frag.ActiveMax, 0)
	if len(first) != 1 || len(again) != 0 || ep.c.Rcv.Next() != next+1 {
		t.Errorf("%d and %d Nacks, packet %d is next, want %d", len(first), len(again),
			ep.c.Rcv.Next(), next+1)
	}
	ep.Abort()
}

// A fragment that the peer has ended, after a chunk of it was refused, does not begin again,
// however many fragments were refused after it.
func TestRefusedManyTimes(t *testing.T) {
	v := newVictim(t, testenv.Seed(t, 3))
	s, m := v.s, v.mods[1]
	ep := s.connect()
	s.run(20)
	n := s.next
	chunk := func(id uint32, at uint32) {
		s.raw(1, encode(frag.Header{
			Kind: frag.KindChunk, Conn: s.conn, Seq: n, Tag: 2, FragID: id, SizeBytes: 3000,
			OffsetBytes: at, FirstBytes: 1000, ChunkBytes: 1000,
		}, make([]byte, 1000)))
		s.run(2)
		n++
	}
	const fragments = 100
	for id := range uint32(fragments) { // no handler has tag 2
		chunk(id, 0)
		chunk(id, 1000)
		for i := range uint32(2) {
			s.raw(1, encode(frag.Header{
				Kind: frag.KindFrag, Conn: s.conn, Seq: n.Add(i - 2), Tag: frag.TagVoid,
			}, nil))
			s.run(2)
		}
	}
	mustHandleTag(t, m, 2, func(*Endpoint, Tag, []byte) {})
	for id := range uint32(fragments) {
		chunk(id, 2000) // a late chunk
	}
	if got := ep.c.Asm.Active(); got != 0 || ep.c.Rcv.Next() != n {
		t.Errorf("%d ended fragments have begun again; packet %d is next, want %d", got,
			ep.c.Rcv.Next(), n)
	}
	before := counter(m, CntDropReassembly)
	chunk(2048, 0) // it needs the slot of the first fragment
	if counter(m, CntDropReassembly) != before || ep.c.Asm.Active() != 1 {
		t.Error("the next fragment gets no slot")
	}
	ep.Abort()
}
