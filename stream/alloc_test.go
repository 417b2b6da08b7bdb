package stream

import (
	"testing"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/internal/mono"
)

// memEngine opens an engine on a network inside the process.
func memEngine(tb testing.TB, nw *mem.Network) *Engine {
	tb.Helper()
	open := func(cfg fabric.DomainConfig) fabric.Domain {
		dom, err := nw.Open(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		return dom
	}
	infos, err := nw.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		tb.Fatal(err)
	}
	dc, err := btl.Config{}.DomainConfig(infos[0])
	if err != nil {
		tb.Fatal(err)
	}
	m, err := btl.Open(open(dc), btl.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	e, err := NewEngine(m, open(DataConfig(infos[0])))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// TestNoAllocation: a stream under way allocates nothing, neither for a message nor for a region.
func TestNoAllocation(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, mode := range []Mode{Reliable, Unreliable} {
		nw := mem.New(mem.Config{FreeRegions: true})
		a, b := memEngine(t, nw), memEngine(t, nw)
		cfg := Config{Mode: mode, Messages: 1 << 40, Unmonitored: true}
		tx, err := a.newSender(newRing(t, 1000, 4, 8), cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Unmonitored = false
		rx, err := b.newReceiver(newRing(t, 1000, 4, 8), cfg, 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.addReceiver(rx.Identity()); err != nil {
			t.Fatal(err)
		}
		now := mono.Time(0)
		more := func(n uint64) {
			for end := rx.stats.Regions + n; rx.stats.Regions < end; {
				now += 1000
				for _, e := range []*Engine{a, b} {
					if _, err := e.Progress(now); err != nil {
						t.Fatal(err)
					}
				}
				for len(rx.regions) > 0 {
					rx.Release(<-rx.regions)
				}
				if rx.state == stateDone {
					t.Fatal(rx.err)
				}
			}
		}
		more(1000)
		if n := testing.AllocsPerRun(50, func() { more(40) }); n != 0 {
			t.Errorf("%v: %v allocations in 320 messages", mode, n)
		}
	}
}

// BenchmarkTake is what a datagram costs the receiver, beside the fabric.
func BenchmarkTake(b *testing.B) {
	for _, size := range []int{64, 1448, 8192} {
		ring, _ := NewRing(Geometry{size, 16, 64}, nil)
		a := newAssembler(ring, 0, 1, size)
		a.overwrite = true
		payload := make([]byte, size)
		b.Run(sizeName(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			from := a.high
			for i := range b.N {
				if a.take(from+uint64(i), 0, payload, false, size == 8192) != resultStored {
					b.Fatal("not stored")
				}
			}
		})
	}
}

func sizeName(n int) string {
	return map[int]string{64: "64", 1448: "1448", 8192: "8192landed"}[n]
}
