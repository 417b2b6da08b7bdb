package swarm

import (
	"slices"
	"testing"
)

// What a sum of runs has not exercised is named, each by itself.
func TestMissing(t *testing.T) {
	all := (&Result{}).Missing()
	for _, want := range slices.Concat(PackNames[:], OpNames[:], []string{
		"wrap of " + WrapNames[wrapFragID], "wrap of " + WrapNames[wrap16], "restarts",
	}) {
		if !slices.Contains(all, want) {
			t.Errorf("%q is not missed by an empty result", want)
		}
	}
	var r Result
	r.Packs[packVoided], r.Wraps[wrapFragID] = 1, 1
	if some := r.Missing(); len(some) != len(all)-2 ||
		slices.Contains(some, PackNames[packVoided]) {
		t.Errorf("with two of them: %d are missing of %d", len(some), len(all))
	}
}

// Packs are counted by what becomes of them on the wire.
func TestPacksCounted(t *testing.T) {
	var p packs
	pack := func(seq byte, records ...byte) []byte {
		b := make([]byte, 32)
		b[0], b[1], b[4], b[16] = 0xB7, 0x28, 1, seq
		for _, tag := range records {
			b = append(b, tag, 0, 1, 0, 'x')
		}
		return b
	}
	nack, void := make([]byte, 33), pack(2)
	nack[1], nack[3] = 0x26, 3
	void[1], void[3] = 0x21, 0xFE
	other := pack(9)
	other[1], other[3] = 0x21, 0xFE
	for _, b := range [][]byte{
		pack(1, 1, 2, 3), pack(2, 1, 2), pack(1, 1, 2, 3), pack(1, 1, 3), nack, void, other, nil,
	} {
		p.see(b)
	}
	want := [numPackKinds]uint64{
		packSent: 2, packRecords: 5, packAgain: 1, packStripped: 1, packVoided: 1, packRefused: 1,
	}
	if p.count != want {
		t.Errorf("%v, want %v", p.count, want)
	}
}

// A fragment id that passes 2^32 is counted once for each connection; puts do not count.
func TestFragIDWraps(t *testing.T) {
	var w wraps
	chunk := func(conn, flags byte, id uint32) []byte {
		b := make([]byte, 60)
		b[0], b[1], b[2], b[4], b[16] = 0xB7, 0x22, flags, conn, 77
		for i := range 4 {
			b[32+i] = byte(id >> (8 * i))
		}
		return b
	}
	last := ^uint32(0)
	w.see(chunk(1, 0, 0), true) // the last one before was not sent
	w.see(chunk(1, 0, last), false)
	w.see(chunk(1, 0, 0), true)
	w.see(chunk(1, 0, 0), true)
	w.see(chunk(2, 2, last), false)
	w.see(chunk(2, 2, 0), true)
	if w.count != [numWraps]uint64{wrapFragID: 1} {
		t.Errorf("%v", w.count)
	}
}
