package vnic

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestShares: a host that tells of addresses without end gets what others do not need, and no more.
func TestShares(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	var f FDB
	f.Configure(Options{Learning: true, LearnedMax: 100})
	for i := range 10_000 {
		f.Learn(tick, MAC(i+1)<<8, 0, 66)
	}
	if f.Len() != 100 {
		t.Fatalf("%d addresses of the only host, want 100", f.Len())
	}
	for i := range 30 {
		for _, lid := range []uint32{2, 3} {
			if !f.Learn(tick, MAC(lid)<<40|MAC(i), 0, lid) {
				t.Fatalf("address %d of host %d is not learned", i, lid)
			}
		}
		for range 100 {
			f.Learn(tick, MAC(r.Uint32()), 0, 66)
		}
	}
	for i := range 30 {
		for _, lid := range []uint32{2, 3} {
			if at, _ := f.Lookup(tick, MAC(lid)<<40|MAC(i), 0); at != lid {
				t.Fatalf("address %d of host %d is gone", i, lid)
			}
		}
	}
	if f.Len() != 100 {
		t.Errorf("%d addresses, want 100", f.Len())
	}
	f.Sweep(tick.Add(time.Hour))
	if f.Len() != 0 || len(f.entries.held) != 0 {
		t.Errorf("%d addresses of %v stay", f.Len(), f.entries.held)
	}
}

// TestNeighbourShares: the same for IP addresses, by frames.
func TestNeighbourShares(t *testing.T) {
	var n Neighbours
	hear := func(lid uint32, ip uint32) {
		mac := MAC(lid) << 8
		p := make([]byte, arpBytes)
		be.PutUint64(p, 0x000108000604<<16|arpReply)
		mac.Put(p[8:])
		be.PutUint32(p[14:], ip)
		f := frame(Broadcast, mac, -1, typeARP, p...)
		info, _ := Inspect(f)
		n.learn(tick, lid, f, &info)
	}
	for i := range uint32(10_000) {
		hear(66, 0x0A000000+i+1)
	}
	if len(n.byIP.rows) != neighboursMax {
		t.Fatalf("%d addresses", len(n.byIP.rows))
	}
	hear(2, 0x0B000001)
	if _, ok := n.byIP.rows[nearKey{ip4([]byte{11, 0, 0, 1}), 0}]; !ok {
		t.Error("one host has crowded out another")
	}
}

// TestLargeGroupFrames: a large frame of UDP takes from the rate of group frames what it becomes.
func TestLargeGroupFrames(t *testing.T) {
	a := newSide(t, 5, 1, []uint32{1, 2}, func(x *Tables) { x.Options.GroupRate = 100 })
	f := frame(Broadcast, 0x020000000001, -1, typeIPv4)
	passed := 0
	for range 10 {
		if a.out.ForwardLarge(tick, f, len(f), 40).Verdict == ToGroup {
			passed += 40
		}
	}
	if passed != 80 || a.out.Counts[TxStorm] != 8 {
		t.Errorf("%d frames passed, want 80; %d large ones did not", passed, a.out.Counts[TxStorm])
	}
	if a.out.ForwardLarge(tick.Add(time.Second), f, len(f), 1000).Verdict != ToGroup {
		t.Error("a frame of more than a second's worth never passes")
	}
}
