package stream

import (
	"fmt"
	"testing"

	"gobtl/btl"
	"gobtl/fabric"
)

// TestRefusedEndpointEnds: a receiver that has not answered and gives way to another one gets no
// more packets. The name of such a receiver may be the address of a third party.
func TestRefusedEndpointEnds(t *testing.T) {
	w := newSimWorld(t, 6, 0)
	ring := w.ring(Geometry{64, 4, 8}, false)
	tx, err := w.tx.newSender(ring, Config{Mode: Unreliable, Messages: 1000, Receivers: 1}, 99)
	if err != nil {
		t.Fatal(err)
	}
	add := func(i int) *btl.Endpoint {
		dom, err := w.nw.Node(fmt.Sprint("silent", i)).Open(fabric.DomainConfig{Buffers: 2048})
		if err != nil {
			t.Fatal(err)
		}
		m, err := btl.Open(dom, btl.Config{SendBuffers: 512, RecvDepth: 256})
		if err != nil {
			t.Fatal(err)
		}
		id := Identity{Role: RoleReceiver, Key: uint64(1000 + i), Name: m.Name()}
		if err := tx.addReceiver(id); err != nil {
			t.Fatal(err)
		}
		return tx.links[len(tx.links)-1].ep
	}
	first := add(0)
	for i := range pendingMax - 1 {
		add(1 + i)
	}
	if tx.links[0].state != linkConnecting {
		t.Fatal("the first receiver is refused too early")
	}
	last := add(pendingMax)
	if _, err := first.Prepare(tagLetter, []byte("x")); err == nil || tx.links[0].state != linkDone {
		t.Errorf("the endpoint of the refused receiver goes on: %v", err)
	}
	if _, err := last.Prepare(tagLetter, []byte("x")); err != nil {
		t.Errorf("the endpoint of the last receiver: %v", err)
	}
}
