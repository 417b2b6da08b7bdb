//go:build linux

package shm

import (
	"testing"

	"gobtl/fabric"
)

// TestManyStopped checks that many peers that do not read leave places in the queue for a peer that
// does read and has an empty ring.
func TestManyStopped(t *testing.T) {
	const depth, stopped = 256, 24
	_, live := openOne(t, fabric.EndpointConfig{})
	sd, se := openOne(t, fabric.EndpointConfig{TxDepth: depth})
	toLive := insert(t, sd, live)
	var out [2 * depth]fabric.Completion
	poll := func() {
		for n := 1; n > 0; {
			var err error
			if n, err = se.Poll(out[:]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range stopped {
		_, dead := openOne(t, fabric.EndpointConfig{})
		to := insert(t, sd, dead)
		for range 512 {
			_, _ = se.Post([]fabric.Send{{To: to, Buf: 1, Len: 60000}})
			poll()
		}
		before := se.unsent
		for range depth / 2 / readersShare {
			if _, err := se.Post([]fabric.Send{{To: toLive, Buf: 1, Len: 1000}}); err != nil {
				t.Fatalf("%d peers do not read, %d sends wait, and to one that does: %v", i+1, before, err)
			}
		}
		if poll(); se.unsent != before {
			t.Fatalf("%d sends wait for a peer that has room", se.unsent-before)
		}
	}
	if se.unsent < depth/2 {
		t.Errorf("%d sends wait: the test shows nothing", se.unsent)
	}
}
