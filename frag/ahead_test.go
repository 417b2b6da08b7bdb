package frag

import (
	"errors"
	"testing"
)

// sendWhole adds all chunks of a fragment in order, and releases the message.
func sendWhole(t *testing.T, a *Assembler, id, sizeBytes uint32) {
	t.Helper()
	for chunk := uint32(0); ; chunk++ {
		h, n := growHeader(id, sizeBytes, chunk)
		m, err := a.Add(&h, make([]byte, n), true)
		if err != nil {
			t.Fatalf("chunk %d: %v", chunk, err)
		}
		if m != nil {
			m.Release()
			return
		}
	}
}

// TestFarAhead checks a fragment whose first chunk to arrive is far ahead. A peer that has sent
// large messages before gets the memory at once. A new peer does not, and its chunk takes no
// memory.
func TestFarAhead(t *testing.T) {
	p, peers := newGrowing(t, PoolConfig{}, 2)
	const sizeBytes = 100 << 20
	far, n := growHeader(9, sizeBytes, 16<<20/growRoom)
	if _, err := peers[0].Add(&far, make([]byte, n), false); !errors.Is(err, ErrBudget) {
		t.Errorf("a new peer: %v", err)
	}
	if p.ActiveBytes() != 0 || p.IdleBytes() != 0 {
		t.Errorf("%d bytes are in use, %d are idle", p.ActiveBytes(), p.IdleBytes())
	}
	sendWhole(t, peers[1], 1, aheadMost/allowanceFactor)
	if _, err := peers[1].Add(&far, make([]byte, n), false); err != nil {
		t.Errorf("a peer that has sent a message: %v", err)
	}
	for chunk := range uint32(16 << 20 / growRoom) { // the chunks before it
		h, n := growHeader(9, sizeBytes, chunk)
		if _, err := peers[1].Add(&h, make([]byte, n), false); err != nil {
			t.Fatalf("chunk %d: %v", chunk, err)
		}
	}
	if err := errors.Join(p.Check(), peers[1].Check()); err != nil {
		t.Error(err)
	}
}

// TestDiscardedMemory checks a peer that begins fragments by a chunk far ahead, or by the first
// chunk, and ends them again, as often as it likes. The memory that the peer causes to be allocated
// is at most a constant and a multiple of the bytes that the peer has sent. Afterwards, a fragment
// that the peer sends in order is reassembled.
func TestDiscardedMemory(t *testing.T) {
	for _, chunk := range []uint32{0, 700, 16 << 20 / growRoom} {
		p, peers := newGrowing(t, PoolConfig{KeepBytes: -1}, 1) // all memory is new
		a := peers[0]
		sendWhole(t, a, 1, 4<<20)
		sent, taken := int64(4<<20), int64(0)
		for id := range uint32(5000) {
			h, n := growHeader(id+2, 100<<20, chunk)
			if _, err := a.Add(&h, make([]byte, n), true); err != nil && !errors.Is(err, ErrBudget) {
				t.Fatal(err)
			}
			sent += int64(n)
			taken += p.ActiveBytes()
			a.Forget(id + 2)
		}
		t.Logf("chunk %d: %d bytes sent, %d allocated", chunk, sent, taken)
		if most := 32<<20 + 2*allowanceFactor*sent; taken > most || p.ActiveBytes() != 0 {
			t.Errorf("chunk %d: %d bytes allocated for %d sent, %d in use", chunk, taken, sent,
				p.ActiveBytes())
		}
		sendWhole(t, a, 1, 4<<20)
		if err := errors.Join(p.Check(), a.Check()); err != nil {
			t.Error(err)
		}
	}
}
