package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// A peer that sends each packet of a message as a piece in a pack, which no sender of this package
// does with more than two, gets no memory for what is longer than the handler takes.
func TestHandleUpToPieces(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	longest := 0
	err := l.mods[1].HandleUpTo(1, 100, func(_ *Endpoint, _ Tag, b []byte) {
		longest = max(longest, len(b))
	})
	if err != nil {
		t.Fatal(err)
	}
	_, ep := l.pair()
	l.settle(time.Second)
	m := ep.m
	const part, parts = 1000, 5
	for i := range uint32(parts) {
		pack := make([]byte, frag.RecordHeaderBytes+frag.PieceExtraBytes+part)
		frag.PutPiece(pack, 1, frag.Piece{
			FragID: 7, SizeBytes: parts * part, OffsetBytes: i * part, FirstBytes: part, ChunkBytes: part,
		}, make([]byte, part))
		in := arrival{ep: ep, payload: pack}
		in.Kind, in.Conn, in.Seq = frag.KindPack, ep.id.Tag, ep.rcv.Next()
		in.PayloadLen = uint16(len(pack))
		m.accept(&in)
		if n := ep.asm.ActiveBytes(); n > 0 {
			t.Errorf("memory of %d bytes after %d packets", n, i+1)
		}
	}
	if longest > 100 {
		t.Errorf("%d bytes are delivered, the handler takes 100", longest)
	}
}
