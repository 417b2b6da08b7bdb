//go:build linux

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
			if n, err := p.x.all.Port.Command.PollBehind(0, 1); n > 0 || err != nil {
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

// A single message that comes over a reliable fabric and is answered leaves the passes at rest, as
// they were before it: the answer to that may be there already.
func TestShmRestsOn(t *testing.T) {
	p := newShmPair(t)
	for range 3 {
		p.round(t)
	}
	p.restYet(t)
	most := p.now.Add(300 * time.Nanosecond)
	p.y.all.Rest.Set(most)
	if err := p.ep.SendImmediate(p.now, 3, p.data[:]); err != nil {
		t.Fatal(err)
	}
	for n := 0; !p.y.fastLast; n++ {
		if p.pass(t, p.y); n > 5 {
			t.Fatal("it did not come")
		}
	}
	if p.pass(t, p.y); p.y.fastLast || p.y.rx.Deferred.Pending || restsUntil(p.y) != most {
		t.Errorf("the pass behind an answer was a whole one: rests until %d, it was %d",
			restsUntil(p.y),
			most)
	}
}

// They rest on no longer than nothing is due: what must hold after each pass does (checkRest), and
// no ACK that renews credits is forgotten.
func TestShmRestsOnAcks(t *testing.T) {
	p := newShmPair(t)
	for range 3000 {
		p.round(t)
		for _, m := range []*Module{p.x, p.y} {
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Nor do they when the handler has done more than to answer.
func TestShmRestsOnMore(t *testing.T) {
	p := newShmPair(t)
	for range 3 {
		p.round(t)
	}
	got := 0
	_ = p.x.Handle(4, func(*Endpoint, Tag, []byte) { got++ })
	_ = p.y.Handle(3, func(ep *Endpoint, _ Tag, data []byte) {
		if err := ep.SendImmediate(ep.Now(), 3, data); err != nil {
			t.Error(err)
		}
		f, err := ep.Prepare(4, make([]byte, 200_000))
		if err == nil {
			_, err = ep.Send(ep.Now(), f)
		}
		if err != nil {
			t.Error(err)
		}
	})
	p.restYet(t)
	p.round(t)
	for n := 0; got == 0; n++ {
		if p.pass(t, p.y); n > 100 {
			t.Fatalf("the fragment behind an answer has not come: at %d passes rest until %d", p.now,
				restsUntil(p.y))
		}
		p.pass(t, p.x)
	}
}

// restYet makes passes until both modules rest, and not so many that all is confirmed.
func (p *shmPair) restYet(tb testing.TB) {
	for n := 0; n < 100 && (restsUntil(p.x) <= p.now || restsUntil(p.y) <= p.now); n++ {
		p.pass(tb, p.x)
		p.pass(tb, p.y)
	}
	for _, m := range []*Module{p.x, p.y} {
		for m.all.Port.Data.NoteFound(); !m.all.Port.Data.MayRest(p.now); m.all.Port.Data.NoteIdle() {
			m.all.Port.Data.Rests(p.now) // its turn is not now
		}
	}
	if restsUntil(p.x) <= p.now || restsUntil(p.y) <= p.now {
		tb.Fatal("they do not rest")
	}
}
