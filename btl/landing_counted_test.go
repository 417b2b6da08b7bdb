package btl

import (
	"bytes"
	"testing"
	"time"

	"gobtl/fabric/sim"
)

// TestCountedLanding: over a fabric that is reliable by itself chunks land as well, between small
// messages and whatever else comes by the same channel, and each message is whole.
func TestCountedLanding(t *testing.T) {
	const count, size = 24, 1 << 20
	r := newRelied(t, sim.Config{MTUBytes: 32 << 10}, Config{}, Config{}, Config{})
	type key struct {
		from *Endpoint
		size int
	}
	got := map[key]int{}
	r.mods[0].Handle(1, func(ep *Endpoint, _ Tag, data []byte) {
		if !bytes.Equal(data, bytes.Repeat([]byte{byte(len(data))}, len(data))) {
			t.Errorf("%d bytes are altered", len(data))
		}
		got[key{ep, len(data)}]++
	})
	var ends [2 * 2 * count]error
	n := 0
	for from := 1; from <= 2; from++ {
		ep := r.connect(from, 0)
		for range count {
			r.send(ep, 1, size+3*from, &ends[n])
			r.send(ep, 1, 100+from, &ends[n+1])
			n += 2
		}
	}
	r.run(10 * time.Second)
	for i, err := range ends {
		if err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if len(got) != 4 {
		t.Errorf("messages of %d senders and sizes, want 4", len(got))
	}
	for k, n := range got {
		if n != count {
			t.Errorf("%d of %d messages of %d bytes", n, count, k.size)
		}
	}
	s := r.mods[0].counted()
	if landed, chunks := s.Get(CntLanded), s.Get(CntRecvChunk); landed*4 < chunks {
		t.Errorf("%d of %d chunks landed", landed, chunks)
	} else {
		t.Logf("%d of %d chunks landed", landed, chunks)
	}
}

// TestCountedLandingBehind: of large fragments of one size that come one behind the other the first
// chunks land as well: a poll does not take one out together with the end of the fragment before.
func TestCountedLandingBehind(t *testing.T) {
	const count, size = 32, 48 << 10 // two chunks
	r := newRelied(t, sim.Config{MTUBytes: 32 << 10}, Config{}, Config{})
	r.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
	ep := r.connect(1, 0)
	var ends [count]error
	for i := range ends {
		r.send(ep, 1, size, &ends[i])
	}
	r.run(time.Second)
	for i, err := range ends {
		if err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
	s := r.mods[0].counted()
	landed, chunks := s.Get(CntLanded), s.Get(CntRecvChunk)
	if landed+4 < chunks || chunks != 2*count {
		t.Errorf("%d of %d chunks landed", landed, chunks)
	}
}

// A large fragment that is refused does not end landing on its connection, nor does a fragment's
// last chunk that is its first.
func TestCountedLandingAfterRefusal(t *testing.T) {
	const count, size = 24, 1 << 20
	r := newRelied(t, sim.Config{MTUBytes: 32 << 10}, Config{}, Config{})
	r.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
	ep := r.connect(1, 0)
	var refused error
	r.send(ep, 2, size, &refused) // no handler
	r.run(time.Second)
	if refused == nil {
		t.Fatal("not refused: the test shows nothing")
	}
	before := r.mods[0].counted()
	var ends [count]error
	for i := range ends {
		r.send(ep, 1, size, &ends[i])
	}
	r.run(10 * time.Second)
	stats := r.mods[0].counted()
	landed := stats.Get(CntLanded) - before.Get(CntLanded)
	chunks := stats.Get(CntRecvChunk) - before.Get(CntRecvChunk)
	if landed*4 < chunks || chunks == 0 {
		t.Errorf("%d of %d chunks landed after a refusal", landed, chunks)
	}
	for i, err := range ends {
		if err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
}
