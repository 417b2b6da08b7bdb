package btl

import (
	"testing"
	"time"
)

// shmPair plays ping-pong with 8 bytes over shared memory, both sides in one goroutine.
type shmPair struct {
	x, y *Module
	ep   *Endpoint
	now  Time
	got  bool
	data [8]byte
}

func newShmPair(tb testing.TB) *shmPair {
	p := &shmPair{x: openShm(tb, Config{}), y: openShm(tb, Config{}), now: 1}
	_ = p.x.Handle(3, func(*Endpoint, Tag, []byte) { p.got = true })
	_ = p.y.Handle(3, func(ep *Endpoint, _ Tag, data []byte) {
		if err := ep.SendImmediate(ep.Now(), 3, data); err != nil {
			tb.Error(err)
		}
	})
	var err error
	if p.ep, err = p.x.Connect(p.now, p.y.Name()); err != nil {
		tb.Fatal(err)
	}
	for n := 0; !p.ep.Connected() && n < 10_000; n++ {
		p.pass(tb, p.x)
		p.pass(tb, p.y)
	}
	return p
}

func (p *shmPair) pass(tb testing.TB, m *Module) {
	p.now = p.now.Add(20 * time.Nanosecond)
	if _, err := m.Progress(p.now); err != nil {
		tb.Fatal(err)
	}
}

// round is a message and its answer, with as many passes as two processors make meanwhile.
func (p *shmPair) round(tb testing.TB) {
	p.got = false
	for p.ep.SendImmediate(p.now, 3, p.data[:]) != nil { // the peer's credits
		p.pass(tb, p.x)
	}
	for p.pass(tb, p.x); !p.got; {
		p.pass(tb, p.y)
		p.pass(tb, p.x)
	}
	p.pass(tb, p.y)
}

// BenchmarkShmIdle is what a pass costs that finds nothing, and the poll in it.
func BenchmarkShmIdle(b *testing.B) {
	p := newShmPair(b)
	p.round(b)
	for range 1000 {
		p.pass(b, p.x)
		p.pass(b, p.y)
	}
	b.Run("pass", func(b *testing.B) {
		for b.Loop() {
			p.pass(b, p.x)
		}
	})
	b.Run("poll", func(b *testing.B) {
		for b.Loop() {
			if n, err := p.x.cmd.ep.Poll(p.x.cmd.comps[:1]); n > 0 || err != nil {
				b.Fatal(n, err)
			}
		}
	})
}

// BenchmarkShmRound8 is what both sides spend on a round trip, without the time that a cache line
// takes from one processor to another.
func BenchmarkShmRound8(b *testing.B) {
	p := newShmPair(b)
	for b.Loop() {
		p.round(b)
	}
}
