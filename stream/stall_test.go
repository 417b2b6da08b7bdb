package stream

import (
	"testing"
	"time"
)

// TestBlockedBesideOthers: a receiver whose program frees no region stops another stream of its
// port for at most 50 ms at a time, and for at most a quarter of the time. Its own datagrams are
// dropped and counted.
func TestBlockedBesideOthers(t *testing.T) {
	w := newSimWorld(t, 23, 1)
	const rate = 5000 // messages per second
	cfg := Config{
		Mode: Unreliable, Timeout: 10 * time.Second, Messages: 1 << 40, BitsPerSecond: 64 * 8 * rate,
	}
	g := Geometry{64, 4, 8}
	blocked := w.open(cfg, g, 0)
	into, _ := NewRing(g, nil)
	from, _ := NewRing(g, nil)
	rx, err := w.rx[0].newReceiver(into, cfg, 56)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Unmonitored = true
	tx, err := w.tx.newSender(from, cfg, 55)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.addReceiver(rx.Identity()); err != nil {
		t.Fatal(err)
	}
	reads := true // whether the program of the first receiver reads
	got, longest, last := uint64(0), time.Duration(0), w.nw.Now()
	w.rx[0].after = func() {
		if reads {
			blocked.read()
		}
		for len(rx.regions) > 0 {
			r := <-rx.regions
			rx.Release(r)
			longest, last = max(longest, w.nw.Now().Sub(last)), w.nw.Now()
			got += uint64(r.Messages)
		}
	}
	w.nw.RunUntil(w.nw.Now().Add(2 * time.Second))
	if got == 0 || blocked.got == 0 {
		t.Fatalf("%d and %d messages beside a program that reads", got, blocked.got)
	}
	const seconds = 4
	reads, got, longest, last = false, 0, 0, w.nw.Now()
	w.nw.RunUntil(w.nw.Now().Add(seconds * time.Second))
	if got < seconds*rate*7/10 {
		t.Errorf("%d of %d messages arrived beside a blocked receiver", got, seconds*rate)
	}
	if longest > 2*stallMost {
		t.Errorf("the port stood still for %v, want at most %v", longest, stallMost)
	}
	if st := blocked.rx.Stats(); blocked.rx.state != stateRunning || st.Overrun == 0 {
		t.Errorf("the blocked receiver: state %v, %+v", blocked.rx.state, st)
	}
	w.nw.RunUntil(w.nw.Now().Add(7 * time.Second))
	if blocked.rx.state != stateDone {
		t.Error("a receiver without a free region does not end after Timeout")
	}
}
