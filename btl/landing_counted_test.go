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
	s := &r.mods[0].stats
	if landed, chunks := s.Get(CntLanded), s.Get(CntRecvChunk); landed*4 < chunks {
		t.Errorf("%d of %d chunks landed", landed, chunks)
	} else {
		t.Logf("%d of %d chunks landed", landed, chunks)
	}
}
