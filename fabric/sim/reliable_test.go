package sim_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// TestReliable checks that a reliable network has only the faults of a path that take time.
// Datagrams from one endpoint to another arrive in order, whether the sends complete late or at
// once.
func TestReliable(t *testing.T) {
	nw, a, b := pair(t, sim.Config{Seed: 5, Reliable: true}, sim.Path{
		Delay: 50 * time.Microsecond, Jitter: time.Millisecond, BytesPerSecond: 50_000_000,
		Loss: 0.5, Duplicate: 0.5, Reorder: 0.5, ReorderDelay: time.Millisecond, BitFlip: 0.5,
		Truncate: 0.5, Junk: 0.5, Replay: 0.5, QueueBytes: 2000, MTUBytes: 100,
	})
	if info := a.node.Info(); !info.Reliable || !info.Ordered {
		t.Fatal("Info does not say so")
	}
	a.node.SetFaults(sim.NodeFaults{LateSends: time.Millisecond})
	const count = 300
	for i := range count {
		data := make([]byte, []int{8, 1400, 40}[i%3])
		binary.LittleEndian.PutUint64(data, uint64(i))
		for again := 0; ; again++ {
			err := a.try(b, data)
			if err == nil {
				break
			}
			if !errors.Is(err, fabric.ErrAgain) || again > 100 {
				t.Fatal(err)
			}
			nw.RunUntil(nw.Now().Add(100 * time.Microsecond))
		}
	}
	nw.RunUntil(nw.Now().Add(time.Second))
	if len(b.arrived) != count {
		t.Fatalf("%d of %d arrived", len(b.arrived), count)
	}
	for i, got := range b.arrived {
		if n := binary.LittleEndian.Uint64(got.data); n != uint64(i) {
			t.Fatalf("number %d arrived at place %d", n, i)
		}
	}
}

// TestReliableHoldsUp checks that a receiver that does not poll blocks its senders, and loses
// nothing.
func TestReliableHoldsUp(t *testing.T) {
	nw, a, b := pair(t, sim.Config{Reliable: true, QueueDatagrams: 10}, sim.Path{})
	b.node.Pause(10 * time.Millisecond)
	sent := 0
	for a.try(b, []byte("anybody there?")) == nil && sent < 100 {
		sent++
		nw.RunUntil(nw.Now() + 10)
	}
	if sent != 10 {
		t.Errorf("%d sent to a queue of 10", sent)
	}
	nw.RunUntil(mono.Time(time.Second))
	if len(b.arrived) != sent {
		t.Errorf("%d of %d arrived", len(b.arrived), sent)
	}
	if err := a.try(b, nil); err != nil {
		t.Errorf("held up for ever: %v", err)
	}
}
