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

// followed is the first header of a run of 44.
func followed(flags Flags) Header {
	const count, payload = 44, 1432
	return Header{
		Kind: KindChunk, Flags: flags, Conn: 5, Seq: 1000, FragID: 3, SizeBytes: count * payload,
		PayloadLen: payload, FirstBytes: payload, ChunkBytes: payload,
	}
}

func TestFollowersAllocateNothing(t *testing.T) {
	for _, flags := range []Flags{0, FlagPut, FlagPut | FlagOp} {
		h := followed(flags)
		b := make([]byte, HeaderBytesMax)
		var f Followers
		if n := testing.AllocsPerRun(100, func() {
			f.After(&h)
			for int(f.left) > 0 {
				f.Write(b)
			}
		}); n != 0 {
			t.Errorf("flags %x: %v allocations", flags, n)
		}
	}
}

// BenchmarkFollowers measures a header of a run of 44 packets, with its share of After.
func BenchmarkFollowers(b *testing.B) {
	h := followed(0)
	pkt := make([]byte, ChunkHeaderBytes)
	var f Followers
	b.ReportAllocs()
	f.After(&h)
	for b.Loop() {
		if int(f.left) == 0 {
			f.After(&h)
		}
		f.Write(pkt)
	}
}
