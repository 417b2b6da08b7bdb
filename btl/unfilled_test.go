package btl

import (
	"runtime"
	"testing"

	"gobtl/frag"
	"gobtl/internal/testenv"
)

// twoPieces is a Pack of a connected peer: the end of a fragment of sizeBytes, and the beginning of
// a fragment that is larger than any. The Pack is refused as a whole, and the peer may send it
// again under the same number as often as it likes.
func (s *script) twoPieces(sizeBytes uint32) []byte {
	const piece = 10
	body := make([]byte, 2*(frag.RecordHeaderBytes+frag.PieceExtraBytes+piece))
	n := frag.PutPiece(body, 1, frag.Piece{
		FragID: 1, SizeBytes: sizeBytes, OffsetBytes: sizeBytes - piece, FirstBytes: 1000,
		ChunkBytes: 1000,
	}, make([]byte, piece))
	n += frag.PutPiece(body[n:], 1, frag.Piece{
		FragID: 2, SizeBytes: 1<<32 - 1, FirstBytes: piece, ChunkBytes: 1000,
	}, make([]byte, piece))
	return encode(frag.Header{Kind: frag.KindPack, Conn: s.conn, Seq: s.next}, body[:n])
}

// allocatedEach returns how many bytes the program allocates in each of several rounds.
func allocatedEach(rounds uint64, round func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / rounds
}

// A Pack whose second piece can never be accepted makes the module allocate little for its first
// piece, however large the first piece's fragment is.
func TestUnfilledOfRefusedPack(t *testing.T) {
	v := newVictim(t, testenv.Seed(t, 1))
	s, m := v.s, v.mods[1]
	ep := s.connect()
	s.run(20)
	for _, million := range []uint32{8, 10, 12, 14, 16} { // may fill the idle memory that is kept
		s.raw(1, s.twoPieces(million*1_000_000+10))
		s.run(2)
	}
	for _, size := range []uint32{20_000_010, 1_000_010} {
		pkt := s.twoPieces(size)
		each := allocatedEach(20, func() {
			s.raw(1, pkt)
			s.run(1)
		})
		if each > 256<<10 || m.all.Pool.ActiveBytes() != 0 || ep.Err() != nil {
			t.Errorf("a packet of %d bytes makes the module allocate %d bytes, %d are in use: %v",
				len(pkt), each, m.all.Pool.ActiveBytes(), ep.Err())
		}
	}
	ep.Abort()
}

// A peer sends a chunk far ahead, a chunk that is refused, and the Void that takes its place and
// frees the memory of the fragment, again and again.
func TestUnfilledOfRefusedFragments(t *testing.T) {
	for _, offset := range []uint32{19_001_000, 901_000} {
		v := newVictim(t, testenv.Seed(t, 2))
		s, m := v.s, v.mods[1]
		ep := s.connect()
		s.run(20)
		n, id := s.next, uint32(1)
		send := func(h frag.Header, payload []byte) {
			h.Conn = s.conn
			s.raw(1, encode(h, payload))
			s.run(1)
		}
		round := func() {
			chunk := frag.Header{
				Kind: frag.KindChunk, Seq: n, Tag: 1, FragID: id, SizeBytes: 1 << 29, OffsetBytes: offset,
				FirstBytes: 1000, ChunkBytes: 1000,
			}
			send(chunk, make([]byte, 1000))
			chunk.Seq, chunk.Tag, chunk.OffsetBytes = n+1, 200, 0
			send(chunk, make([]byte, 1000))
			send(frag.Header{Kind: frag.KindFrag, Seq: n + 1, Tag: frag.TagVoid}, nil)
			n, id = n+2, id+1
		}
		allocatedEach(8, round)
		if each := allocatedEach(20, round); each > 256<<10 || ep.Err() != nil {
			t.Errorf("three packets make the module allocate %d bytes, %d are in use: %v", each,
				m.all.Pool.ActiveBytes(), ep.Err())
		}
		ep.Abort()
	}
}
