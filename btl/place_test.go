package btl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/testenv"
)

// placer is an owner who is asked where fragments of tag 1 shall go, and keeps account of the
// memory that it gives.
type placer struct {
	tb    testing.TB
	rng   *rand.Rand
	given map[*byte]int  // length of what the module has, by its first byte
	got   map[uint64]int // deliveries, by the number of the message
	again int            // that came back without a fragment
	asked int
	late  int // asked with a packet that was not the first one of its fragment
	// of is where the next one shall go.
	of func(a Announced) Place
}

func newPlacer(tb testing.TB, m *Module, rng *rand.Rand) *placer {
	p := &placer{tb: tb, rng: rng, given: map[*byte]int{}, got: map[uint64]int{}}
	p.of = func(a Announced) Place { return p.give(a.SizeBytes + 10) }
	m.OnAbandoned(func(_ *Endpoint, tag Tag, mem []byte) {
		p.again++
		p.back(mem)
		if tag != 1 {
			tb.Errorf("memory for tag %d", tag)
		}
	})
	if err := errors.Join(m.Handle(1, p.receive), m.OnAnnounced(1, p.ask)); err != nil {
		tb.Fatal(err)
	}
	return p
}

func (p *placer) give(size int) Place {
	b := make([]byte, size)
	p.given[&b[0]] = size
	return PlaceIn(b)
}

func (p *placer) back(mem []byte) {
	if p.given[&mem[0]] == 0 {
		p.tb.Errorf("%d bytes come back that were not given", len(mem))
	}
	delete(p.given, &mem[0])
}

func (p *placer) ask(_ *Endpoint, a Announced) Place {
	p.asked++
	if a.OffsetBytes != 0 {
		p.late++
	}
	if a.Tag != 1 || len(a.Data) == 0 || a.OffsetBytes+len(a.Data) > a.SizeBytes {
		p.tb.Errorf("announced: tag %d, %d bytes at %d of %d", a.Tag, len(a.Data), a.OffsetBytes,
			a.SizeBytes)
	}
	return p.of(a)
}

func (p *placer) receive(_ *Endpoint, _ Tag, data []byte) {
	n := binary.LittleEndian.Uint64(data)
	p.got[n]++
	if !bytes.Equal(data[8:], placeBody(n, len(data))) {
		p.tb.Errorf("message %d of %d bytes is not as it was sent", n, len(data))
	}
	if p.given[&data[0]] != 0 {
		p.back(data)
	}
}

var placeBytes = func() []byte {
	b := make([]byte, 1<<20)
	rng := newRand(5)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}()

func placeBody(n uint64, size int) []byte { return placeBytes[n%1000:][:size-8] }

func placeMessage(n uint64, size int) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, size), n)
	return append(b, placeBody(n, size)...)
}

// anywhere gives memory, too little of it, none, or refuses.
func (p *placer) anywhere(refused *int) func(Announced) Place {
	return func(a Announced) Place {
		switch p.rng.IntN(8) {
		case 0:
			*refused++
			return PlaceRefused()
		case 1:
			return PlaceIn(make([]byte, a.SizeBytes-1))
		case 2:
			return Place{}
		}
		return p.give(a.SizeBytes)
	}
}

// Wherever the owner sends them, and whatever happens on the way: each fragment that is not refused
// comes once and whole, each that is refused ends with ErrUnwanted, and all memory comes back.
func TestPlace(t *testing.T) {
	seed := testenv.Seed(t, 31)
	for _, c := range []struct {
		name  string
		chaos chaos
	}{
		{"calm", chaos{}},
		{"all faults", chaos{loss: 0.02, dup: 0.02, hold: 0.05}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := regressConfig()
			cfg.SendBuffers, cfg.RecvDepth = 512, 256
			l := newLab(t, mem.Config{FreeRegions: true, QueueDatagrams: 256}, 2, cfg)
			p := newPlacer(t, l.mods[1], newRand(seed))
			refused, asked, ended := 0, 0, 0
			p.of = p.anywhere(&refused)
			ep := l.connect(0, 1)
			l.settle(time.Second)
			l.chaos(c.chaos, seed)
			errs := map[uint64]error{}
			for n := uint64(0); n < 200; {
				if p.rng.IntN(3) == 0 {
					f, err := ep.Prepare(1, placeMessage(n, 8+p.rng.IntN(20_000)))
					if err != nil {
						t.Fatal(err)
					}
					f.Signal, f.Context = true, n
					f.OnDone = func(f *Fragment, err error) { ended, errs[f.Context] = ended+1, err }
					if _, err := ep.Send(l.now, f); err != nil {
						t.Fatal(err)
					}
					asked++
					n++
				}
				l.step(20 * time.Microsecond)
				l.chaosStep()
			}
			l.calm()
			l.until("all ended", 50*time.Microsecond, 60*time.Second, func() bool { return ended == asked })
			unwanted := 0
			for n, err := range errs {
				switch {
				case errors.Is(err, ErrUnwanted) && p.got[n] == 0:
					unwanted++
				case err != nil || p.got[n] != 1:
					t.Errorf("message %d ended with %v, and came %d times", n, err, p.got[n])
				}
			}
			if unwanted != refused || refused == 0 {
				t.Errorf("%d of %d refused, %d ended so", refused, p.asked, unwanted)
			}
			if c.chaos.loss > 0 && p.late == 0 {
				t.Error("no fragment was announced by a later packet")
			}
			if placed := l.mods[1].stats.Get(CntPlaced); placed == 0 || len(p.given) > 0 || p.again > 0 {
				t.Errorf("%d placed, %d still given, %d abandoned", placed, len(p.given), p.again)
			}
			l.settle(time.Second)
			l.wantIdle(0)
			l.wantIdle(1)
		})
	}
}

// What was given for a fragment that never becomes whole comes back: when its peer goes, when its
// sender fails it, when the module closes; and nothing of it counts in the budget of reassembly.
func TestPlaceAbandoned(t *testing.T) {
	for _, how := range []string{"peer aborts", "owner aborts", "handler removed", "close", "pulled"} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t, mem.Config{}, 2, smallConfig())
			m := l.mods[1]
			p := newPlacer(t, m, newRand(1))
			a, b := l.pair()
			f, err := a.Prepare(1, placeMessage(1, 1<<20))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
			l.until("begun", time.Microsecond, time.Second, func() bool { return p.asked == 1 })
			if m.pool.ActiveBytes() != 0 || len(p.given) != 1 {
				t.Fatalf("%d bytes of the pool in use, %d places given", m.pool.ActiveBytes(), len(p.given))
			}
			switch how {
			case "peer aborts":
				a.Abort()
			case "owner aborts":
				b.Abort()
			case "handler removed":
				m.Handle(1, nil)
			case "close":
				if err := m.Close(); err != nil || p.again != 1 {
					t.Errorf("%d came back from Close: %v", p.again, err)
				}
				return
			case "pulled":
				m.PullCompletions(true)
				b.Abort()
				var c [4]Completion
				if n := m.Pull(c[:]); n != 2 || c[0].Kind != CompletionAbandoned || c[0].Tag != 1 ||
					c[0].Endpoint != b || len(c[0].Mem) != 1<<20 || c[1].Kind != CompletionEvent {
					t.Errorf("%d pulled: %+v", n, c)
				}
				return
			}
			l.until("back", 100*time.Microsecond, 10*time.Second, func() bool { return p.again == 1 })
			if len(p.given) > 0 || len(p.got) > 0 {
				t.Errorf("%d places given, %d messages came", len(p.given), len(p.got))
			}
		})
	}
}

// The function that is asked may end the endpoint, or remove the handler: then nothing is placed.
func TestPlaceCallback(t *testing.T) {
	for _, how := range []string{"abort", "no handler", "old peer"} {
		t.Run(how, func(t *testing.T) {
			l := newLab(t, mem.Config{}, 2, smallConfig())
			p := newPlacer(t, l.mods[1], newRand(1))
			a, b := l.pair()
			want, back := ErrNoHandler, 1
			p.of = func(a Announced) Place {
				switch how {
				case "abort":
					b.Abort()
					want = ErrPeerClosed
				case "no handler":
					l.mods[1].Handle(1, nil)
				case "old peer":
					back, b.operates = 0, false
					return PlaceRefused()
				}
				return p.give(a.SizeBytes)
			}
			f, err := a.Prepare(1, placeMessage(1, 50_000))
			if err != nil {
				t.Fatal(err)
			}
			var end error
			f.OnDone = func(_ *Fragment, err error) { end = err }
			if _, err := a.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
			l.until("ended", 100*time.Microsecond, 10*time.Second, func() bool { return end != nil })
			l.step(time.Microsecond)
			var ended *EndedError
			if !errors.Is(end, want) && !errors.As(end, &ended) || p.again != back || len(p.given) > 0 {
				t.Errorf("ended with %v, %d came back, %d given", end, p.again, len(p.given))
			}
		})
	}
}

// A Nack that is lost is sent again, and what else comes of a fragment that is refused is neither
// announced nor put anywhere; nor is what comes of it once the sender knows.
func TestPlaceRefusalLost(t *testing.T) {
	s, got, room := landScript(t)
	asked := 0
	s.m.OnAnnounced(1, func(*Endpoint, Announced) Place {
		asked++
		return PlaceRefused()
	})
	n, size := s.next, 4*room
	part := make([]byte, room)
	for range 3 {
		s.chunk(n, 1, size, 0, part)
		nacks := kinds(s.run(6), frag.KindNack)
		if len(nacks) != 1 || nacks[0].hdr.Seq != n || nacks[0].hdr.Tag != frag.NackNoHandler {
			t.Fatalf("%d Nacks of a chunk that is not wanted, by who knows no operations", len(nacks))
		}
	}
	s.chunk(n+1, 1, size, room, part)
	s.run(6)
	s.raw(0, encode(frag.Header{Kind: frag.KindFrag, Conn: s.conn, Seq: n, Tag: frag.TagVoid}, nil))
	s.chunk(n+2, 1, size, 2*room, part)
	s.run(6)
	ep := s.m.lookup(s.conn)
	if ep.rcv.Next() != n+3 || asked != 1 || len(*got) > 0 || ep.asm.Active() > 0 {
		t.Errorf("next is %d, want %d; asked %d times, %d messages, %d under way", ep.rcv.Next(), n+3,
			asked, len(*got), ep.asm.Active())
	}
}

// A message whose first chunks landed where the next one of another tag would begin is announced
// all the same.
func TestPlaceGuess(t *testing.T) {
	p := newVectorPair(t, mem.Config{MTUBytes: 1472, QueueDatagrams: 4096}, Config{})
	const size = 100_000
	own, asked := make([]byte, size), 0
	m := p.mods[1]
	if err := errors.Join(
		m.Handle(3, func(_ *Endpoint, _ Tag, data []byte) {
			if &data[0] != &own[0] || !bytes.Equal(data, placeBytes[:size]) {
				t.Error("the message is elsewhere, or altered")
			}
		}),
		m.OnAnnounced(3, func(*Endpoint, Announced) Place {
			asked++
			return PlaceIn(own)
		})); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.send(p.ep.Prepare(2, placeBytes[1:][:size]))
	}
	for range 3 {
		ends := p.mods[1].slots.Values()
		for _, ep := range ends {
			if ep != nil && !ep.expects.begins {
				t.Fatal("the third message of one size is not expected")
			}
		}
		p.send(p.ep.Prepare(3, placeBytes[:size]))
		p.send(p.ep.Prepare(2, placeBytes[1:][:size]))
		p.send(p.ep.Prepare(2, placeBytes[1:][:size]))
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

// Over a reliable fabric it is as elsewhere.
func TestPlaceReliable(t *testing.T) {
	r := newRelied(t, sim.Config{Seed: testenv.Seed(t, 1), MTUBytes: 4000}, smallConfig(),
		smallConfig())
	p := newPlacer(t, r.mods[1], newRand(2))
	refused, unwanted, ended := 0, 0, 0
	p.of = p.anywhere(&refused)
	ep := r.connect(0, 1)
	const count = 60
	for n := range uint64(count) {
		r.run(100 * time.Microsecond)
		f, err := ep.Prepare(1, placeMessage(n, 8+p.rng.IntN(60_000)))
		if err != nil {
			t.Fatal(err)
		}
		f.Signal = true
		f.OnDone = func(_ *Fragment, err error) {
			ended++
			if errors.Is(err, ErrUnwanted) {
				unwanted++
			} else if err != nil || p.got[n] != 1 {
				t.Errorf("message %d ended with %v, and came %d times", n, err, p.got[n])
			}
		}
		if _, err := ep.Send(ep.Now(), f); err != nil {
			t.Fatal(err)
		}
	}
	r.run(10 * time.Second)
	if ended != count || unwanted != refused || refused == 0 || len(p.given) > 0 || p.again > 0 {
		t.Errorf("%d ended, %d refused, %d ended so, %d given, %d abandoned", ended, refused, unwanted,
			len(p.given), p.again)
	}
}

// placeRound returns a function that sends a message, and the receiver: into memory of its own, or
// through the pool with a copy of its own.
func placeRound(tb testing.TB, size int, copies bool) (func(), *Module) {
	p := newVectorPair(tb, mem.Config{MTUBytes: 9000, QueueDatagrams: 4096}, Config{})
	own, msg := make([]byte, size), make([]byte, size)
	m := p.mods[1]
	err := m.Handle(3, func(_ *Endpoint, _ Tag, data []byte) {
		if copies {
			copy(own, data)
		} else if &data[0] != &own[0] {
			tb.Error("the message is elsewhere")
		}
	})
	if !copies {
		err = errors.Join(err, m.OnAnnounced(3, func(*Endpoint, Announced) Place { return PlaceIn(own) }))
	}
	if err != nil {
		tb.Fatal(err)
	}
	return func() { p.send(p.ep.Prepare(3, msg)) }, m
}

// All that follows the first packets lands in the owner's memory: nothing is copied.
func TestPlaceLands(t *testing.T) {
	const size, rounds = 1 << 20, 20
	round, m := placeRound(t, size, false)
	for range rounds {
		round()
	}
	copied := m.stats.Get(CntPlacedCopiedBytes)
	if n := m.stats.Get(CntPlaced); n != rounds || copied*4 > size*rounds {
		t.Errorf("%d placed, %d of %d bytes copied", n, copied, size*rounds)
	}
	t.Logf("%d of %d bytes copied", copied, size*rounds)
}

func TestPlaceAllocs(t *testing.T) {
	round, _ := placeRound(t, 100_000, false)
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPlace(b *testing.B)       { benchmarkPlace(b, false) }
func BenchmarkPlaceCopied(b *testing.B) { benchmarkPlace(b, true) }

func benchmarkPlace(b *testing.B, copies bool) {
	const size = 1 << 20
	round, m := placeRound(b, size, copies)
	b.SetBytes(size)
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(m.stats.Get(CntPlacedCopiedBytes))/float64(b.N), "copied-B/op")
}
