package frag

import (
	"bytes"
	"errors"
	"fmt"
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

// land adds a run of chunks that were written to the memory of Landing. The argument want is the
// expected error.
func (l *landed) land(tb testing.TB, from, count int, want error) {
	tb.Helper()
	m := l.find(9)
	have, missing := slices.Clone(m.have), m.missing
	h, _ := l.chunk(from)
	if want == nil {
		mem := l.Landing(9, h.OffsetBytes, count*landedRoom)
		if copy(mem, l.whole[h.OffsetBytes:]) != count*landedRoom {
			tb.Fatalf("a landing of %d bytes for chunks %d to %d", len(mem), from, from+count-1)
		}
	}
	if got, err := l.AddLanded(&h, landedRoom, count-1); !errors.Is(err, want) || got != nil {
		tb.Fatalf("chunks %d to %d: %v, %v, want %v", from, from+count-1, got, err, want)
	}
	if want != nil && (m.missing != missing || !slices.Equal(m.have, have)) {
		tb.Fatalf("chunks %d to %d were refused, and have left something behind", from, from+count-1)
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

// eachRun calls a test for runs that are inside a word of the bitmap, end with a word, begin with a
// word, or cross one or two words.
func eachRun(t *testing.T, f func(t *testing.T, from, count int)) {
	t.Helper()
	for _, from := range []int{0, 1, 63, 64} {
		for _, count := range []int{1, 2, 63, 64, 65, 130} {
			t.Run(fmt.Sprintf("%d+%d", from, count), func(t *testing.T) { f(t, from, count) })
		}
	}
}

// TestAddLandedRun checks that a run has the same effects as its chunks one by one.
func TestAddLandedRun(t *testing.T) {
	eachRun(t, func(t *testing.T, from, count int) {
		run, single := newLanded(t), newLanded(t)
		run.land(t, from, count, nil)
		for i := range count {
			single.land(t, from+i, 1, nil)
		}
		a, b := run.find(9), single.find(9)
		if a.missing != b.missing || !slices.Equal(a.have, b.have) {
			t.Fatalf("%d missing, %x; one by one %d, %x", a.missing, a.have, b.missing, b.have)
		}
		if err := run.Check(); err != nil {
			t.Error(err)
		}
		for i := range count {
			run.land(t, from+i, 1, ErrOverlap)
		}
		run.finish(t)
	})
}

// TestAddLandedRunRefused checks that a run with one chunk that was received before changes
// nothing.
func TestAddLandedRunRefused(t *testing.T) {
	eachRun(t, func(t *testing.T, from, count int) {
		for at := from; at < from+count; at++ {
			l := newLanded(t)
			l.land(t, at, 1, nil)
			l.land(t, from, count, ErrOverlap)
			if at > from {
				l.land(t, from, at-from, nil)
			}
			l.finish(t)
		}
		l := newLanded(t)
		h, _ := l.chunk(from)
		m := l.find(9)
		have, missing := slices.Clone(m.have), m.missing
		for _, c := range []struct {
			want  error
			alter func(h *Header)
		}{
			{ErrNotBegun, func(h *Header) { h.FragID++ }},
			{ErrMismatch, func(h *Header) { h.Tag++ }},
			{ErrMismatch, func(h *Header) { h.SizeBytes++ }},
			{ErrMismatch, func(h *Header) { h.SizeBytes += 1 << 20 }},
			{ErrBounds, func(h *Header) { h.OffsetBytes++ }},
			{ErrKind, func(h *Header) { h.Flags |= FlagPut }},
			{ErrKind, func(h *Header) { h.Kind = KindFrag }},
		} {
			bad := h
			c.alter(&bad)
			got, err := l.AddLanded(&bad, landedRoom, count-1)
			if got != nil || !errors.Is(err, c.want) || m.missing != missing ||
				!slices.Equal(m.have, have) {
				t.Errorf("%+v: %v, %v, want %v", bad, got, err, c.want)
			}
		}
		l.finish(t)
	})
}

// TestAddLandedRunEnds checks that the run that completes a message returns the message.
func TestAddLandedRunEnds(t *testing.T) {
	for _, first := range []int{1, 63, 64, 65, 128, 259} {
		l := newLanded(t)
		l.land(t, 0, first, nil)
		h, _ := l.chunk(first)
		copy(l.Landing(9, h.OffsetBytes, 1<<20), l.whole[h.OffsetBytes:])
		got, err := l.AddLanded(&h, landedRoom, l.count-2-first)
		if err != nil || got == nil || !bytes.Equal(got.Bytes, l.whole) || l.Active() != 0 {
			t.Fatalf("from chunk %d on: %v, %v", first, got, err)
		}
		got.Release()
		if _, err := l.AddLanded(&h, landedRoom, 0); !errors.Is(err, ErrNotBegun) {
			t.Errorf("of a message that is whole: %v", err)
		}
	}
}

// TestAddLandedRunLies checks a header with a wrong size, which promises more followers than the
// fragment has.
func TestAddLandedRunLies(t *testing.T) {
	for _, size := range []uint32{260*landedRoom + 2, 261 * landedRoom, 1 << 20, 1<<32 - 1} {
		l := newLanded(t)
		h, _ := l.chunk(255)
		h.SizeBytes = size
		var f Followers
		f.After(&h)
		got, err := l.AddLanded(&h, landedRoom, int(f.left))
		if !errors.Is(err, ErrMismatch) || got != nil {
			t.Errorf("%d chunks: %v, %v", int(f.left), got, err)
		}
		l.finish(t)
	}
}

// TestAddLandedRunPastEnd checks that a run has only chunks of the first chunk's size, and ends
// with the fragment.
func TestAddLandedRunPastEnd(t *testing.T) {
	for _, c := range []struct{ from, count int }{
		{0, 261},
		{0, 262},
		{0, 1 << 20},
		{64, 1<<31 - 1},
		{250, 11},
		{250, 12},
		{250, 1 << 10},
		{255, 6},
		{256, 5},
		{259, 2},
		{259, 3},
		{259, 400},
	} {
		newLanded(t).land(t, c.from, c.count, ErrBounds)
	}
	l := newLanded(t)
	last := l.count - 1
	l.Forget(9)
	h, payload := l.chunk(0)
	if _, err := l.Add(&h, payload, true); err != nil {
		t.Fatal(err)
	}
	h, payload = l.chunk(last)
	if _, err := l.AddLanded(&h, len(payload), 1); !errors.Is(err, ErrBounds) {
		t.Errorf("behind the last one: %v", err)
	}
}

// TestBeginLanded checks that chunks that begin a fragment are accepted only if they are in the
// fragment's buffer. A refusal changes nothing.
func TestBeginLanded(t *testing.T) {
	const room = 100
	for _, c := range []struct {
		name   string
		alter  func(h *Header)
		follow int
		early  bool // not in order
		other  bool // the chunks are in other memory
		none   bool // of no bytes
		want   error
	}{
		{name: "alone"},
		{name: "with others", follow: 4},
		{name: "of the same class", alter: func(h *Header) { h.SizeBytes -= 20 }, follow: 2},
		{name: "in other memory", other: true, want: ErrNotBegun},
		{name: "in no memory", other: true, none: true, want: ErrNotBegun},
		{name: "of another class", alter: func(h *Header) { h.SizeBytes = 3000 }, want: ErrNotBegun},
		{name: "not the first", alter: func(h *Header) { h.OffsetBytes = room }, want: ErrNotBegun},
		{name: "too many", follow: 20, want: ErrBounds},
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
			before := a
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
				before = a
			}
			m, err := a.BeginLanded(&h, room, c.follow, !c.early, mem)
			if !errors.Is(err, c.want) || m != nil {
				t.Fatalf("%v, %v, want %v", m, err, c.want)
			}
			if err != nil && (a.active != before.active || a.activeBytes != before.activeBytes ||
				pool.idle[0] == nil) {
				t.Fatal("something has changed")
			}
			if m := a.find(9); err == nil && (&m.mem[0] != &mem[0] ||
				int(m.missing) != 10-1-c.follow || a.Anticipate(1000, room, room, 1) != nil) {
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
