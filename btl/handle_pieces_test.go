package btl

import (
	"testing"

	"gobtl/frag"
)

// A peer that sends each packet of a message as a piece in a pack, which no sender of this package
// does with more than two, gets no memory for what is longer than the handler takes.
func TestHandleUpToPieces(t *testing.T) {
	s, _, _ := landScript(t)
	longest := 0
	err := s.m.HandleUpTo(1, 100, func(_ *Endpoint, _ Tag, b []byte) {
		longest = max(longest, len(b))
	})
	if err != nil {
		t.Fatal(err)
	}
	ep := endpointOf(s.m.all.Peers.Lookup(s.conn))
	const part, parts = 1000, 5
	for i := range uint32(parts) {
		pack := make([]byte, frag.RecordHeaderBytes+frag.PieceExtraBytes+part)
		frag.PutPiece(pack, 1, frag.Piece{
			FragID: 7, SizeBytes: parts * part, OffsetBytes: i * part, FirstBytes: part, ChunkBytes: part,
		}, make([]byte, part))
		s.raw(0, encode(frag.Header{Kind: frag.KindPack, Conn: s.conn, Seq: s.next.Add(i)}, pack))
		s.run(3)
		if got := ep.c.Rcv.Next(); got != s.next.Add(i+1) {
			t.Fatalf("the next packet is %d after %d packets", got, i+1)
		}
		if n := ep.c.Asm.ActiveBytes(); n > 0 {
			t.Errorf("memory of %d bytes after %d packets", n, i+1)
		}
	}
	if longest > 100 {
		t.Errorf("%d bytes are delivered, the handler takes 100", longest)
	}
}
