package inbound

import (
	"bytes"
	"errors"
	"testing"

	"gobtl/frag"
)

const roomBytes = 1000 // payload of a chunk

// assembler returns an Assembler whose pool has memory for two fragments of two chunks each.
func assembler(t *testing.T) (*frag.Assembler, *frag.Pool) {
	t.Helper()
	pool, err := frag.NewPool(frag.PoolConfig{FragBytesMax: 2 * roomBytes, BytesMax: 16 << 10})
	if err != nil {
		t.Fatal(err)
	}
	asm := new(frag.Assembler)
	asm.Init(pool)
	return asm, pool
}

// shared is the payload of a packet with the end of fragment 1 and the beginning of fragment 2.
func shared() []byte {
	b := make([]byte, 4*roomBytes)
	n := frag.PutPiece(b, 3, frag.Piece{
		FragID: 1, SizeBytes: roomBytes + 10, OffsetBytes: roomBytes,
		FirstBytes: roomBytes, ChunkBytes: roomBytes,
	}, bytes.Repeat([]byte{1}, 10))
	n += frag.PutPiece(b[n:], 4, frag.Piece{
		FragID: 2, SizeBytes: roomBytes + 20, FirstBytes: 20, ChunkBytes: roomBytes,
	}, bytes.Repeat([]byte{2}, 20))
	return b[:n]
}

// push fills p with the pieces of shared.
func push(t *testing.T, p *Pieces) {
	t.Helper()
	p.Clear()
	want := uint32(1)
	for rest := shared(); len(rest) > 0; want++ {
		if got := p.Push(rest); got != want {
			t.Errorf("piece of fragment %d, want %d", got, want)
		}
		_, _, rest = frag.NextRecord(rest)
	}
}

func none(*frag.Header) bool { return false }

// The pieces of a packet are reserved together and added one by one.
func TestPiecesTogether(t *testing.T) {
	asm, _ := assembler(t)
	begin := frag.Header{
		Kind: frag.KindChunk, Tag: 3, FragID: 1, SizeBytes: roomBytes + 10, FirstBytes: roomBytes,
		ChunkBytes: roomBytes, PayloadLen: roomBytes,
	}
	if msg, err := asm.Add(&begin, make([]byte, roomBytes), true); msg != nil || err != nil {
		t.Fatal(msg, err)
	}
	var p Pieces
	push(t, &p)
	if err := p.Reserve(asm, true, none); err != nil {
		t.Fatal(err)
	}
	h, msg, ok := p.Add(asm, 0)
	if !ok || msg == nil || h.Tag != 3 || !bytes.Equal(msg.Bytes[roomBytes:],
		bytes.Repeat([]byte{1}, 10)) {
		t.Fatalf("the end of fragment 1: %v, %+v, %v", h, msg, ok)
	}
	msg.Release()
	if h, msg, ok = p.Add(asm, 1); !ok || msg != nil || h.FragID != 2 || asm.Active() != 1 {
		t.Errorf("the beginning of fragment 2: %v, %v, %v", h, msg, ok)
	}
}

// If one piece cannot be reserved, nothing of the packet stays.
func TestPiecesRefusedTogether(t *testing.T) {
	asm, pool := assembler(t)
	other := frag.Header{
		Kind: frag.KindChunk, Tag: 9, FragID: 2, SizeBytes: 2 * roomBytes, FirstBytes: roomBytes,
		ChunkBytes: roomBytes, PayloadLen: roomBytes,
	}
	if _, err := asm.Add(&other, make([]byte, roomBytes), true); err != nil {
		t.Fatal(err)
	}
	active, bytesBefore := asm.Active(), pool.ActiveBytes()
	var p Pieces
	push(t, &p)
	if err := p.Reserve(asm, true, none); !errors.Is(err, frag.ErrMismatch) {
		t.Fatalf("a piece of fragment 2 of another tag: %v", err)
	}
	if asm.Active() != active || pool.ActiveBytes() != bytesBefore {
		t.Errorf("%d fragments and %d bytes are in use, want %d and %d", asm.Active(),
			pool.ActiveBytes(), active, bytesBefore)
	}
}

// An ignored piece takes no memory, and is not added.
func TestPieceIgnored(t *testing.T) {
	asm, _ := assembler(t)
	var p Pieces
	push(t, &p)
	err := p.Reserve(asm, true, func(h *frag.Header) bool { return h.FragID == 1 })
	if err != nil || asm.Active() != 1 {
		t.Fatalf("%d fragments have begun: %v", asm.Active(), err)
	}
	if _, _, ok := p.Add(asm, 0); ok {
		t.Error("the ignored piece is added")
	}
	if _, _, ok := p.Add(asm, 1); !ok {
		t.Error("the other piece is not added")
	}
}

// The fragment of a piece that is missing in the resent packet has ended at its sender, and what
// was received of the fragment is dropped.
func TestCameWithout(t *testing.T) {
	rcv, _ := received(t, 1)
	asm, _ := assembler(t)
	var r Refusals
	var p Pieces
	push(t, &p)
	if err := p.Reserve(asm, true, none); err != nil {
		t.Fatal(err)
	}
	r.AddPieces(rcv, 1, shared(), 3)
	if !r.Has(1, 1) || r.Has(1, 2) {
		t.Fatalf("refused: %+v", r.all())
	}
	r.CameWithout(1, &p, asm) // the same packet again
	if r.Ended(rcv, 1) || asm.Active() != 2 {
		t.Errorf("%d fragments are left after a copy", asm.Active())
	}
	p.Clear()
	r.CameWithout(1, &p, asm)
	if !r.Ended(rcv, 1) || asm.Active() != 1 {
		t.Errorf("%d fragments are left after the packet came without the piece", asm.Active())
	}
}
