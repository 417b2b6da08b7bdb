package pml

import (
	"testing"

	"gobtl/btl"
)

// TestBusyTurns checks that the peers take turns, that a round reaches each peer once, that a round
// larger than one call asks for another call, and that gone peers get no turn.
func TestBusyTurns(t *testing.T) {
	b := newBusy()
	count := busyVisits + 2
	for i := range count {
		p := newPeer(uint32(i + 1))
		b.add(p)
		b.add(p) // is there already
	}
	gone := newPeer(99)
	gone.err = ErrPeer
	b.add(gone)
	var visited []uint32
	call := func(now btl.Time, event bool) {
		b.visit(now, event, func(_ btl.Time, p *Peer) {
			if visited = append(visited, p.index); p.index == 3 {
				b.remove(p)
			}
		})
	}
	call(5, true)
	if at, due := b.deadline(); len(visited) != busyVisits || !due || at != 5 {
		t.Fatalf("%d peers were visited, more are due: %v at %v", len(visited), due, at)
	}
	call(6, false)
	if _, due := b.deadline(); len(visited) != count || due {
		t.Fatalf("%d peers were visited of %d, more are due: %v", len(visited), count, due)
	}
	for i, index := range visited {
		if index != uint32(i+1) {
			t.Fatalf("the order is %v", visited)
		}
	}
	visited = nil
	call(7, false)
	call(8, false)
	if len(visited) != count-1 || visited[2] != 4 {
		t.Errorf("the next round is %v", visited)
	}
}
