package frag

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"gobtl/internal/seq"
)

// follower is the header of the i-th chunk after the chunk of h, computed in the simplest way.
func follower(h Header, i int) Header {
	h.Flags &^= FlagAck | FlagDup
	h.Ack, h.Credit, h.CreditBytes = 0, 0, 0
	h.Seq = h.Seq.Add(uint32(i))
	h.Number += uint32(i)
	h.OffsetBytes += uint32(i) * uint32(h.PayloadLen)
	if h.Flags&FlagPut != 0 {
		h.PutOffset += uint64(i) * uint64(h.PayloadLen)
	}
	return h
}

// drawFollowed draws the header of a chunk, and the number of chunks of equal size that follow.
func drawFollowed(t *rapid.T, put bool) (h Header, behind int) {
	h = Header{
		Kind: KindChunk, Conn: rapid.Uint64Min(1).Draw(t, "conn"),
		FragID: rapid.Uint32().Draw(t, "id"), Tag: rapid.Uint8Max(TagUserMax).Draw(t, "tag"),
		PayloadLen: rapid.SampledFrom([]uint16{ChunkBytesMin, 472, 1432, 1<<16 - 1}).Draw(t, "payload"),
	}
	if rapid.Bool().Draw(t, "any payload?") {
		h.PayloadLen = rapid.Uint16Min(ChunkBytesMin).Draw(t, "any payload")
	}
	behind = rapid.IntRange(0, 20).Draw(t, "behind")
	h.Seq = seq.Num(rapid.Uint32().Draw(t, "seq"))
	h.Number = uint32(drawSeq(t, "number"))
	if rapid.Bool().Draw(t, "wraps?") {
		h.Seq = -seq.Num(rapid.IntRange(0, behind+1).Draw(t, "before the wrap"))
	}
	// The fragment may end with the last of these chunks, or with a shorter chunk, up to the
	// largest size.
	rest := uint64(rapid.Uint16Max(h.PayloadLen-1).Draw(t, "rest"))
	total := uint64(behind+1)*uint64(h.PayloadLen) + rest
	room := math.MaxUint32 - total
	offset := rapid.Uint64Max(room).Draw(t, "offset")
	if rapid.IntRange(0, 3).Draw(t, "at the end of 32 bits?") == 0 {
		offset = room
	}
	h.OffsetBytes, h.SizeBytes = uint32(offset), uint32(offset+total)
	h.ChunkBytes = h.PayloadLen
	if h.FirstBytes = uint16(offset % uint64(h.PayloadLen)); h.FirstBytes == 0 {
		h.FirstBytes = h.PayloadLen
	}
	switch rapid.IntRange(0, 2).Draw(t, "ack?") {
	case 0:
		h.Flags = FlagAck
	case 1:
		h.Flags = FlagAck | FlagDup
	}
	if h.Flags != 0 {
		h.Ack, h.Credit = seq.Num(rapid.Uint32().Draw(t, "ack")), rapid.Uint16().Draw(t, "credit")
		h.CreditBytes = rapid.Uint16().Draw(t, "credit bytes")
	}
	if put {
		h.Flags |= FlagPut
		h.FirstBytes, h.ChunkBytes = 0, 0
		h.Tag, h.Handle = 0, rapid.Uint64().Draw(t, "handle")
		h.PutOffset = rapid.Uint64Max(math.MaxUint64-total).Draw(t, "put offset")
		if rapid.Bool().Draw(t, "with a notice?") {
			h.Flags |= FlagOp
			h.OpCode, h.Op = OpPart, rapid.Uint32().Draw(t, "operation")
		}
	}
	return h, behind
}

// TestFollowersWrite checks that Write writes the same bytes as Encode, and nothing beyond these
// bytes.
func TestFollowersWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, behind := drawFollowed(t, rapid.Bool().Draw(t, "put?"))
		given := h
		var f Followers
		f.After(&h)
		if h != given {
			t.Fatalf("After has altered the header: %+v, was %+v", h, given)
		}
		for i := 1; i <= behind; i++ {
			if int(f.left) != behind+1-i {
				t.Fatalf("%d left before the %d-th of %d", int(f.left), i, behind)
			}
			next := follower(h, i)
			want := append(encodePacket(&next, nil), 0xCC, 0xCC)
			got := bytes.Repeat([]byte{0xCC}, len(want))
			f.Write(got[:len(got)-2])
			if !bytes.Equal(got, want) {
				t.Fatalf("follower %d of %+v:\n%x, want\n%x", i, h, got, want)
			}
		}
		if int(f.left) != 0 {
			t.Fatalf("%d left behind the last of %d", int(f.left), behind)
		}
	})
}

// TestFollowersLeft checks that only whole chunks of the same size count.
func TestFollowersLeft(t *testing.T) {
	for _, c := range []struct {
		size, offset uint32
		payload      uint16
		want         int
	}{
		{1432, 0, 1432, 0},
		{1433, 0, 1432, 0},
		{2863, 0, 1432, 0},
		{2864, 0, 1432, 1},
		{2864, 1432, 1432, 0},
		{2865, 1432, 1432, 0},
		{2865, 2864, 1, 0},
		{14320, 1432, 1432, 8},
		{math.MaxUint32, 0, 1<<16 - 1, 1 << 16},
		{math.MaxUint32, math.MaxUint32 - 3, 1, 2},
		{math.MaxUint32, math.MaxUint32 - 3, 3, 0},
	} {
		h := Header{
			Kind: KindChunk, Conn: 1, SizeBytes: c.size, OffsetBytes: c.offset, PayloadLen: c.payload,
			ChunkBytes: c.payload,
		}
		var f Followers
		f.After(&h)
		if int(f.left) != c.want {
			t.Errorf("%d left behind %d bytes at %d of %d, want %d", int(f.left), c.payload, c.offset,
				c.size, c.want)
		}
	}
}

// TestFollowersMatch checks that each header matches once, in its turn, and that no other header
// matches. A refused header changes nothing. An accepted header is a packet with the expected
// fields.
func TestFollowersMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, behind := drawFollowed(t, rapid.Bool().Draw(t, "put?"))
		var f Followers
		f.After(&h)
		refused := func(head []byte, why string, i int) {
			t.Helper()
			before := f
			if f.Match(head) || f != before {
				t.Fatalf("follower %d of %d, %s: accepted, or not without a trace", i, behind, why)
			}
		}
		refused(encodePacket(&h, nil), "the first one itself", 0)
		for i := 1; i <= behind; i++ {
			want := follower(h, i)
			head := encodePacket(&want, nil)
			for bit := range 8 * len(head) {
				head[bit/8] ^= 1 << (bit % 8)
				refused(head, "a bit altered", i)
				head[bit/8] ^= 1 << (bit % 8)
			}
			for _, n := range []int{0, 1, FragHeaderBytes, ChunkHeaderBytes - 1} {
				refused(head[:n], "short", i)
			}
			refused(append(bytes.Clone(head), 0), "long", i)
			after := follower(h, i+1)
			refused(encodePacket(&after, nil), "the one behind it", i)
			if left := int(f.left); !f.Match(head) || int(f.left) != left-1 {
				t.Fatalf("follower %d of %d refused, %d left of %d", i, behind, int(f.left), left)
			}
			refused(head, "a copy", i)
			var got Header
			payload, err := Decode(append(head, make([]byte, h.PayloadLen)...), &got)
			if err != nil || got != want || len(payload) != int(h.PayloadLen) {
				t.Fatalf("Decode gives %+v, %v, want %+v", got, err, want)
			}
		}
		end := follower(h, behind+1)
		refused(encodePacket(&end, nil), "past the end", behind+1)
	})
}

// TestFollowersMatchKind checks that the header of a put never matches after a chunk without put,
// and vice versa.
func TestFollowersMatchKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, behind := drawFollowed(t, true)
		plain := h
		plain.Flags &^= FlagPut | FlagOp
		plain.Op, plain.OpCode = 0, 0
		plain.Handle, plain.PutOffset = 0, 0
		plain.FirstBytes, plain.ChunkBytes = plain.PayloadLen, plain.PayloadLen
		put, chunk := follower(h, 1), follower(plain, 1)
		for _, first := range []Header{h, plain} {
			next := follower(first, 1)
			asPut := encodePacket(&put, nil)
			for _, head := range [][]byte{asPut, asPut[:ChunkHeaderBytes], encodePacket(&chunk, nil)} {
				var f Followers
				f.After(&first)
				before := f
				want := behind > 0 && bytes.Equal(head, encodePacket(&next, nil))
				if got := f.Match(head); got != want || !want && f != before {
					t.Fatalf("%x behind %+v: %v, want %v", head, first, got, want)
				}
			}
		}
	})
}

// followed is the first header of a run of 44, and the encoded headers after the first.
func followed(flags Flags) (h Header, heads [][]byte) {
	const count, payload = 44, 1432
	h = Header{
		Kind: KindChunk, Flags: flags, Conn: 5, Seq: 1000, FragID: 3, SizeBytes: count * payload,
		PayloadLen: payload, FirstBytes: payload, ChunkBytes: payload,
	}
	for i := 1; i < count; i++ {
		next := follower(h, i)
		heads = append(heads, encodePacket(&next, nil))
	}
	return h, heads
}

func TestFollowersAllocateNothing(t *testing.T) {
	for _, flags := range []Flags{0, FlagPut, FlagPut | FlagOp} {
		h, heads := followed(flags)
		b := make([]byte, HeaderBytesMax)
		var f Followers
		if n := testing.AllocsPerRun(100, func() {
			f.After(&h)
			for int(f.left) > 0 {
				f.Write(b)
			}
			f.After(&h)
			for _, head := range heads {
				if !f.Match(head) {
					t.Error("not what follows")
				}
			}
		}); n != 0 {
			t.Errorf("flags %x: %v allocations", flags, n)
		}
	}
}

// BenchmarkFollowers measures a header of a run of 44 packets, with its share of After.
func BenchmarkFollowers(b *testing.B) {
	h, heads := followed(0)
	pkt := make([]byte, ChunkHeaderBytes)
	var f Followers
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		f.After(&h)
		for b.Loop() {
			if int(f.left) == 0 {
				f.After(&h)
			}
			f.Write(pkt)
		}
	})
	b.Run("match", func(b *testing.B) {
		b.ReportAllocs()
		i := len(heads)
		for b.Loop() {
			if i == len(heads) {
				f.After(&h)
				i = 0
			}
			if !f.Match(heads[i]) {
				b.Fatal("not what follows")
			}
			i++
		}
	})
}
