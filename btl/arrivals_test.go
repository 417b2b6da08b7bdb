package btl

import (
	"bytes"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// newPuller is a pair of which the second module pulls what comes with tag 2.
func newPuller(tb testing.TB, cfg Config) *vectorPair {
	p := newVectorPair(tb, mem.Config{InjectBytes: 1472, QueueDatagrams: 4096}, cfg)
	if err := p.mods[1].HandlePulled(2); err != nil {
		tb.Fatal(err)
	}
	return p
}

// Messages of all sizes wait until they are pulled, in order, as they were, whatever room there is
// to keep them; the bytes stay until the next call.
func TestPullArrivals(t *testing.T) {
	for _, cfg := range []Config{
		{}, {KeptPackets: 2, KeptBytesMax: 50_000}, {KeptPackets: -1, KeptBytesMax: -1},
	} {
		p := newPuller(t, cfg)
		sizes := []int{0, 8, 8, 700, 1400, 40_000, 8, 100_000, 3}
		buf := make([]Arrival, 4)
		for round := range 5 {
			for i, size := range sizes {
				p.send(p.ep.Prepare(2, bytes.Repeat([]byte{byte(16*round + i)}, size)))
			}
			for range 20 {
				p.step(time.Microsecond)
			}
			got := 0
			for n := len(buf); n == len(buf); {
				n = p.mods[1].PullArrivals(buf)
				for i := range buf[:n] {
					a := &buf[i]
					want := bytes.Repeat([]byte{byte(16*round + got)}, sizes[got])
					if !bytes.Equal(a.Bytes(), want) || a.Tag != 2 || a.Endpoint == nil {
						t.Fatalf("%d packets kept, round %d, message %d: %d bytes, tag %d", cfg.KeptPackets,
							round, got, len(a.Bytes()), a.Tag)
					}
					got++
				}
			}
			if got != len(sizes) {
				t.Fatalf("%d packets kept, round %d: %d messages, want %d", cfg.KeptPackets, round, got,
					len(sizes))
			}
		}
		if n := p.mods[1].PullArrivals(buf); n != 0 || p.mods[1].keeping.packets != 0 ||
			p.mods[1].keeping.bytes != 0 {
			t.Errorf("%d more; %d packets and %d bytes are kept", n, p.mods[1].keeping.packets,
				p.mods[1].keeping.bytes)
		}
		p.step(time.Microsecond)
	}
}

// A handler takes the place of pulling, and what waits still can be pulled then.
func TestPullArrivalsHandled(t *testing.T) {
	p := newPuller(t, Config{})
	p.send(p.ep.Prepare(2, []byte("waits")))
	handled := 0
	if err := p.mods[1].Handle(2, func(*Endpoint, Tag, []byte) { handled++ }); err != nil {
		t.Fatal(err)
	}
	p.send(p.ep.Prepare(2, []byte("handled")))
	buf := make([]Arrival, 2)
	if n := p.mods[1].PullArrivals(buf); n != 1 || string(buf[0].Bytes()) != "waits" || handled != 1 {
		t.Errorf("%d pulled, %d handled", n, handled)
	}
	if err := p.mods[1].HandlePulled(TagMax + 1); err == nil {
		t.Error("a tag beyond the last")
	}
}

func TestPullArrivalsAllocs(t *testing.T) {
	for _, cfg := range []Config{{}, {KeptPackets: -1, KeptBytesMax: -1}} {
		for _, size := range []int{8, 1400} {
			p := newPuller(t, cfg)
			msg, buf := make([]byte, size), make([]Arrival, 8)
			round := func() {
				for range 5 {
					p.send(p.ep.Prepare(2, msg))
				}
				p.mods[1].PullArrivals(buf)
			}
			for range 300 {
				round()
			}
			if n := testing.AllocsPerRun(100, round); n > 0 {
				t.Errorf("%d packets kept, %d bytes: %v allocations", cfg.KeptPackets, size, n)
			}
		}
	}
}
