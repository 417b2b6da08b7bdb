package numbers

import (
	"testing"

	"gobtl/btl/internal/port"
)

// No number comes twice, each channel has its own, and what is left out was never sent.
func TestTake(t *testing.T) {
	var s Source
	draws := uint64(0)
	s.Init(func() uint64 { draws++; return draws<<32 | 5 }, 8192)
	var n Numbers
	seen := map[port.Which]map[uint32]bool{port.Command: {}, port.Data: {}}
	withheld := 0
	for i := range 20000 {
		by := port.Which(i % 2)
		count := uint32(1 + i%3)
		first := n.Take(&s, by, count)
		for k := range count {
			if number := first + k; number == 0 || seen[by][number] || !n.Sent(number, by) {
				t.Fatalf("number %d of channel %d: again %v", number, by, seen[by][number])
			}
			seen[by][first+k] = true
		}
		if w := &n.ways[by]; w.skipped != 0 && n.Sent(w.skipped, by) {
			t.Fatalf("%d was left out, and counts as sent", w.skipped)
		}
		if s.Due(by) {
			withheld++
			if s.Withhold(by); s.Due(by) {
				t.Fatal("withheld twice")
			}
		}
	}
	if draws < 10 || withheld == 0 || withheld > int(draws) {
		t.Errorf("%d numbers were left out, %d packets withheld", draws, withheld)
	}
}

// A peer cannot have seen what was left out, or is still to be sent; it may have seen nothing.
func TestSent(t *testing.T) {
	var s Source
	s.Init(func() uint64 { return 1 }, 0)
	var n Numbers
	n.Take(&s, port.Command, 3)
	w := &n.ways[port.Command]
	w.left = 1 // the next one is left out
	if got := n.Take(&s, port.Command, 1); got != w.skipped+1 || w.skipped == 0 {
		t.Fatalf("packet %d behind the one left out, %d", got, w.skipped)
	}
	for number, want := range map[uint32]bool{
		0: true, 1: true, w.skipped: false, w.latest: true, w.latest + 1: false,
		w.latest + 1<<30: false,
	} {
		if got := n.Sent(number, port.Command); got != want {
			t.Errorf("packet %d of %d, without %d: %v", number, w.latest, w.skipped, got)
		}
	}
	if s.Due(port.Command) {
		t.Error("a packet is withheld, but none is to be")
	}
}

// Packet numbers go on behind 2^32, as on the wire.
func TestNumbersWrap(t *testing.T) {
	var s Source
	s.Init(func() uint64 { return 1 }, 0)
	var n Numbers
	w := &n.ways[port.Command]
	w.latest, w.left = 1<<32-3, 10
	if first := n.Take(&s, port.Command, 6); first != 1<<32-2 || n.Latest()[port.Command] != 3 {
		t.Errorf("6 numbers from %d to %d", first, n.Latest()[port.Command])
	}
	for number, want := range map[uint32]bool{1<<32 - 3: true, 1<<32 - 1: true, 3: true, 4: false} {
		if got := n.Sent(number, port.Command); got != want {
			t.Errorf("packet %d of %d was sent: %v", number, w.latest, got)
		}
	}
	w.left = 1 // the next one is left out
	if first := n.Take(&s, port.Command, 1); first != 5 || w.skipped != 4 || n.Sent(4, port.Command) {
		t.Errorf("packet %d behind the one left out, %d", first, w.skipped)
	}
}
