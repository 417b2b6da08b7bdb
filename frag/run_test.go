package frag

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// landed is an assembler that has received the last chunk of a fragment, which is shorter than the
// others.
type landed struct {
	Assembler
	whole []byte
	count int // chunks, including the last one
}

const landedRoom = 4

func newLanded(tb testing.TB) *landed {
	tb.Helper()
	l := &landed{whole: randomBytes(rand.New(rand.NewPCG(3, 4)), 260*landedRoom+1), count: 261}
	l.Init(mustPool(tb, PoolConfig{}))
	h, payload := l.chunk(l.count - 1)
	if _, err := l.Add(&h, payload, true); err != nil {
		tb.Fatal(err)
	}
	return l
}

func (l *landed) chunk(i int) (Header, []byte) { return chunkOf(9, l.whole, landedRoom, i) }

// land adds chunks that were written to the memory of ChunkMemory.
func (l *landed) land(tb testing.TB, from, count int) {
	tb.Helper()
	h, _ := l.chunk(from)
	mem := l.ChunkMemory(9, h.OffsetBytes, count*landedRoom)
	if copy(mem, l.whole[h.OffsetBytes:]) != count*landedRoom {
		tb.Fatalf("memory of %d bytes for chunks %d to %d", len(mem), from, from+count-1)
	}
	for i := range count {
		h, _ := l.chunk(from + i)
		if got, err := l.AddLanded(&h, landedRoom); err != nil || got != nil {
			tb.Fatalf("chunk %d: %v, %v", from+i, got, err)
		}
	}
}

// finish adds the missing chunks, and checks the complete message.
func (l *landed) finish(tb testing.TB) {
	tb.Helper()
	m := l.find(9)
	for i := range l.count {
		if m.have[i/64]>>(i%64)&1 != 0 {
			continue
		}
		h, payload := l.chunk(i)
		got, err := l.Add(&h, payload, true)
		if err != nil || (got == nil) != (m.missing > 0) {
			tb.Fatalf("chunk %d: %v, %v, %d missing", i, got, err, m.missing)
		}
		if got != nil && !bytes.Equal(got.Bytes, l.whole) {
			tb.Fatal("the message is altered")
		}
	}
	if l.Active() != 0 {
		tb.Fatal("the message is not whole")
	}
}

// TestAddLanded checks chunks that were written to the memory of ChunkMemory, inside a word of the
// bitmap and across its words. The last missing chunk completes the message.
func TestAddLanded(t *testing.T) {
	for _, from := range []int{0, 1, 63, 64} {
		for _, count := range []int{1, 2, 63, 64, 65, 130} {
			l := newLanded(t)
			l.land(t, from, count)
			if err := l.Check(); err != nil {
				t.Error(err)
			}
			l.finish(t)
		}
	}
	l := newLanded(t)
	l.land(t, 0, l.count-2)
	h, _ := l.chunk(l.count - 2)
	copy(l.ChunkMemory(9, h.OffsetBytes, 1<<20), l.whole[h.OffsetBytes:])
	got, err := l.AddLanded(&h, landedRoom)
	if err != nil || got == nil || !bytes.Equal(got.Bytes, l.whole) || l.Active() != 0 {
		t.Fatalf("the last missing chunk: %v, %v", got, err)
	}
	got.Release()
	if _, err := l.AddLanded(&h, landedRoom); !errors.Is(err, ErrNotBegun) {
		t.Errorf("a chunk of a complete message: %v", err)
	}
}

// TestAddLandedRefused checks that a refused chunk changes nothing.
func TestAddLandedRefused(t *testing.T) {
	l := newLanded(t)
	l.land(t, 5, 1)
	m := l.find(9)
	have, missing := slices.Clone(m.have), m.missing
	for _, c := range []struct {
		want  error
		alter func(h *Header)
	}{
		{ErrOverlap, func(*Header) {}},
		{ErrNotBegun, func(h *Header) { h.FragID++ }},
		{ErrMismatch, func(h *Header) { h.Tag++ }},
		{ErrMismatch, func(h *Header) { h.SizeBytes++ }},
		{ErrMismatch, func(h *Header) { h.SizeBytes += 1 << 20 }},
		{ErrBounds, func(h *Header) { h.OffsetBytes++ }},
		{ErrKind, func(h *Header) { h.Flags |= FlagPut }},
		{ErrKind, func(h *Header) { h.Kind = KindFrag }},
	} {
		bad, _ := l.chunk(5)
		c.alter(&bad)
		got, err := l.AddLanded(&bad, landedRoom)
		if got != nil || !errors.Is(err, c.want) || m.missing != missing ||
			!slices.Equal(m.have, have) {
			t.Errorf("%+v: %v, %v, want %v", bad, got, err, c.want)
		}
	}
	l.finish(t)
}

// TestBeginLanded checks that chunks that begin a fragment are accepted only if they are in the
// fragment's buffer. A refusal changes nothing.
func TestBeginLanded(t *testing.T) {
	const room = 100
	for _, c := range []struct {
		name  string
		alter func(h *Header)
		early bool // not in order
		other bool // the chunk is in other memory
		none  bool // of no bytes
		want  error
	}{
		{name: "the first"},
		{name: "of the same class", alter: func(h *Header) { h.SizeBytes -= 20 }},
		{name: "in other memory", other: true, want: ErrNotBegun},
		{name: "in no memory", other: true, none: true, want: ErrNotBegun},
		{name: "of another class", alter: func(h *Header) { h.SizeBytes = 3000 }, want: ErrNotBegun},
		{name: "not the first", alter: func(h *Header) { h.OffsetBytes = room }, want: ErrNotBegun},
		{name: "under way", alter: func(h *Header) { h.FragID = 7 }, want: ErrSlot},
		{name: "too large", alter: func(h *Header) { h.SizeBytes = 1 << 20 }, want: ErrNotBegun},
		{name: "a put", alter: func(h *Header) { h.Flags = FlagPut }, want: ErrKind},
		{name: "early, without the reserve", early: true, want: ErrBudget},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The pool holds two fragments, and one that is in order.
			pool, err := NewPool(PoolConfig{FragBytesMax: 2048, PeerBytesMax: 4096, BytesMax: 4096})
			if err != nil {
				t.Fatal(err)
			}
			var a Assembler
			a.Init(pool)
			// One fragment of the class has come and gone, and another fragment is in progress.
			h := Header{Kind: KindChunk, FragID: 1, SizeBytes: room, PayloadLen: room}
			h.FirstBytes, h.ChunkBytes = room, room
			whole, err := a.Add(&h, make([]byte, room), true)
			if err != nil {
				t.Fatal(err)
			}
			h = Header{Kind: KindChunk, FragID: 7, SizeBytes: 1020, PayloadLen: room}
			h.FirstBytes, h.ChunkBytes = room, room
			if _, err := a.Add(&h, make([]byte, room), true); err != nil {
				t.Fatal(err)
			}
			whole.Release()
			mem := a.Anticipate(1000, room, room, 1<<20)
			if len(mem) != 1000 || cap(mem) != 1000 {
				t.Fatalf("%d bytes of %d anticipated", len(mem), cap(mem))
			}
			if c.other {
				mem = make([]byte, 1000)
			}
			if c.none {
				mem = nil
			}
			before := *a.tally
			h = Header{Kind: KindChunk, FragID: 9, SizeBytes: 1000, PayloadLen: room}
			h.FirstBytes, h.ChunkBytes = room, room
			if c.alter != nil {
				c.alter(&h)
			}
			if c.early { // a third of 1 KiB would leave less than a fragment
				more := Header{Kind: KindChunk, FragID: 8, SizeBytes: 2048, PayloadLen: room}
				more.FirstBytes, more.ChunkBytes = room, room
				if _, err := a.Add(&more, make([]byte, room), true); err != nil {
					t.Fatal(err)
				}
				before = *a.tally
			}
			m, err := a.BeginLanded(&h, room, !c.early, mem)
			if !errors.Is(err, c.want) || m != nil {
				t.Fatalf("%v, %v, want %v", m, err, c.want)
			}
			if err != nil && (a.active != before.active || a.activeBytes != before.activeBytes ||
				pool.idle[0] == nil) {
				t.Fatal("something has changed")
			}
			if m := a.find(9); err == nil && (&m.mem[0] != &mem[0] ||
				m.missing != 10-1 || a.Anticipate(1000, room, room, 1) != nil) {
				t.Fatalf("begun with %d chunks missing", m.missing)
			}
			if err := a.Check(); err != nil {
				t.Error(err)
			}
			if err := pool.CheckIdle(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnticipate checks that Anticipate returns only whole chunks of idle memory.
func TestAnticipate(t *testing.T) {
	pool, err := NewPool(PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var a Assembler
	a.Init(pool)
	if mem := a.Anticipate(1000, 100, 100, 1000); mem != nil {
		t.Errorf("%d bytes of no buffer", len(mem))
	}
	h := Header{
		Kind: KindChunk, FragID: 1, SizeBytes: 80, PayloadLen: 80, FirstBytes: 80, ChunkBytes: 100,
	}
	m, err := a.Add(&h, make([]byte, 80), true)
	if err != nil {
		t.Fatal(err)
	}
	if mem := a.Anticipate(1000, 100, 100, 1000); mem != nil {
		t.Errorf("%d bytes of a message that is not released", len(mem))
	}
	m.Release()
	for _, c := range []struct {
		size uint32
		most int
		want int
	}{
		{950, 1 << 20, 950},
		{950, 950, 950},
		{950, 949, 900},
		{950, 100, 100},
		{950, 99, 0},
		{150, 149, 100},
		{950, 0, 0},
		{950, -1, 0},
		{60, 100, 60},
		{60, 59, 0},
		{1024, 1 << 20, 1024},
		{1025, 1 << 20, 0},
		{0, 100, 0},
	} {
		mem := a.Anticipate(c.size, 100, 100, c.most)
		if len(mem) != c.want || cap(mem) != c.want || (mem == nil) != (c.want == 0) {
			t.Errorf("%d bytes of %d, at most %d: %d (%d)", c.want, c.size, c.most, len(mem), cap(mem))
		}
	}
}
