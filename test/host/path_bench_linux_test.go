package host

import (
	"encoding/hex"
	"errors"
	"testing"

	"gobtl/btl"
)

// pairOf opens two modules of this process, connected through shared memory.
func pairOf(b *testing.B) (a, c *rank, ep *btl.Endpoint) {
	b.Helper()
	a, err := openRank()
	if err != nil {
		b.Fatal(err)
	}
	if c, err = openRank(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = a.m.Close()
		_ = c.m.Close()
	})
	ep, err = a.m.Connect(a.now(), c.m.Name())
	if err != nil {
		b.Fatal(err, hex.EncodeToString(c.m.Name()))
	}
	for range 10000 {
		step(b, a)
		step(b, c)
	}
	if !ep.Connected() {
		b.Fatal("not connected")
	}
	return a, c, ep
}

func step(b *testing.B, r *rank) int {
	n, err := r.m.Progress(r.now())
	if err != nil || r.err != nil {
		b.Fatal(err, r.err)
	}
	return n
}

// BenchmarkPassInVain is what a pass costs that finds nothing: who polls looks so often.
func BenchmarkPassInVain(b *testing.B) {
	a, _, _ := pairOf(b)
	now := a.now()
	for b.Loop() {
		now++
		if _, err := a.m.Progress(now); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPingPong8 is a ping-pong of two modules on one processor: two messages, each sent in a
// handler, and the passes that they come in; without passes in vain, clocks and cache misses.
func BenchmarkPingPong8(b *testing.B) {
	a, c, ep := pairOf(b)
	got := 0
	msg := make([]byte, 8)
	a.m.Handle(2, func(*btl.Endpoint, btl.Tag, []byte) { got++ })
	c.m.Handle(2, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		if err := ep.SendImmediate(ep.Now(), 2, data); err != nil {
			got++ // the other one sends it again
		}
	})
	now := max(a.now(), c.now())
	want := 0
	for b.Loop() {
		now += 400
		for err := ep.SendImmediate(now, 2, msg); err != nil; err = ep.SendImmediate(now, 2, msg) {
			if !errors.Is(err, btl.ErrAgain) {
				b.Fatal(err)
			}
			_, e1 := a.m.Progress(now)
			_, e2 := c.m.Progress(now)
			if e1 != nil || e2 != nil {
				b.Fatal(e1, e2)
			}
			now += 400
		}
		want++
		for got < want {
			_, e1 := c.m.Progress(now)
			_, e2 := a.m.Progress(now)
			if e1 != nil || e2 != nil {
				b.Fatal(e1, e2)
			}
		}
	}
}
