package btl

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/testenv"
)

// longTest sends messages to a handler that takes up to most bytes, and judges how they end.
type longTest struct {
	t                 *testing.T
	most, sent, ended int
	long              int
	came              map[int]int // deliveries, by length
}

func newLongTest(t *testing.T, m *Module, most int) *longTest {
	lt := &longTest{t: t, most: most, came: map[int]int{}}
	if err := m.HandleUpTo(1, uint32(most), func(_ *Endpoint, _ Tag, data []byte) {
		lt.came[len(data)]++
	}); err != nil {
		t.Fatal(err)
	}
	return lt
}

// send sends a message of a length that no other one has.
func (lt *longTest) send(ep *Endpoint, now Time, size int) {
	lt.t.Helper()
	f, err := ep.Prepare(1, make([]byte, size))
	if err != nil {
		lt.t.Fatal(err)
	}
	f.Signal = true
	lt.sent++
	if size > lt.most {
		lt.long++
	}
	f.OnDone = func(_ *Fragment, err error) {
		lt.ended++
		want, wantCame := error(nil), 1
		if size > lt.most {
			want, wantCame = ErrUnwanted, 0
		}
		if !errors.Is(err, want) || lt.came[size] != wantCame {
			lt.t.Errorf("%d bytes, at most %d: ended with %v, delivered %d times", size, lt.most, err,
				lt.came[size])
		}
	}
	if _, err := ep.Send(now, f); err != nil {
		lt.t.Fatal(err)
	}
}

// A message that is longer than its handler takes ends with ErrUnwanted and is not delivered,
// whatever happens on the way; all others come once.
func TestHandleUpTo(t *testing.T) {
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
			lt := newLongTest(t, l.mods[1], 12_000)
			ep := l.connect(0, 1)
			l.settle(time.Second)
			l.chaos(c.chaos, seed)
			r := newRand(seed)
			for lt.sent < 200 {
				if r.IntN(3) == 0 {
					lt.send(ep, l.now, 100*lt.sent+1)
				}
				l.step(20 * time.Microsecond)
				l.chaosStep()
			}
			l.calm()
			l.until("all ended", 50*time.Microsecond, 60*time.Second, func() bool {
				return lt.ended == lt.sent
			})
			l.settle(time.Second)
			l.wantIdle(0)
			l.wantIdle(1)
		})
	}
}

// Over a reliable fabric it is as elsewhere.
func TestHandleUpToReliable(t *testing.T) {
	r := newRelied(t, sim.Config{Seed: testenv.Seed(t, 1), MTUBytes: 4000}, smallConfig(),
		smallConfig())
	lt := newLongTest(t, r.mods[1], 30_000)
	ep := r.connect(0, 1)
	for lt.sent < 60 {
		r.run(100 * time.Microsecond)
		lt.send(ep, ep.Now(), 1000*lt.sent+1)
	}
	r.run(10 * time.Second)
	if lt.ended != lt.sent {
		t.Errorf("%d of %d ended", lt.ended, lt.sent)
	}
}

// A Nack that is lost is sent again, with its reason, and what else comes of a fragment that is too
// long is not put anywhere; nor is what comes of it once the sender knows.
func TestHandleUpToRefusalLost(t *testing.T) {
	for _, operates := range []bool{false, true} {
		s, got, room := landScript(t)
		ep := endpointOf(s.m.all.Peers.Lookup(s.conn))
		n, size := s.next, 4*room
		reason := uint8(frag.NackNoHandler)
		if ep.c.ID.Operates = operates; operates {
			reason = frag.NackRight
		}
		s.m.rx.Limit(1, size-1)
		part := make([]byte, room)
		for range 3 {
			s.chunk(n, 1, size, 0, part)
			nacks := kinds(s.run(6), frag.KindNack)
			if len(nacks) != 1 || nacks[0].hdr.Seq != n || nacks[0].hdr.Tag != reason {
				t.Fatalf("operates %v: Nacks %+v of a chunk that is not wanted", operates, nacks)
			}
		}
		s.raw(0, encode(frag.Header{Kind: frag.KindFrag, Conn: s.conn, Seq: n, Tag: frag.TagVoid}, nil))
		s.chunk(n+1, 1, size, 2*room, part)
		s.run(6)
		if ep.c.Rcv.Next() != n+2 || len(*got) > 0 || ep.c.Asm.Active() > 0 {
			t.Errorf("next is %d, want %d; %d messages, %d under way", ep.c.Rcv.Next(), n+2, len(*got),
				ep.c.Asm.Active())
		}
	}
}

// A message that is too long does not come because its first chunks landed where the next one of
// another tag would begin.
func TestHandleUpToGuess(t *testing.T) {
	p := newVectorPair(t, mem.Config{MTUBytes: 1472, QueueDatagrams: 4096}, Config{})
	const size = 100_000
	if err := p.mods[1].HandleUpTo(3, size-1, func(*Endpoint, Tag, []byte) {
		t.Error("it came")
	}); err != nil {
		t.Fatal(err)
	}
	msg := bytes.Repeat([]byte{7}, size)
	for range 3 {
		for range 3 {
			if p.send(p.ep.Prepare(2, msg)); p.err != nil || !bytes.Equal(p.whole, msg) {
				t.Fatalf("%d bytes: %v", len(p.whole), p.err)
			}
		}
		if m := p.mods[1]; !m.rx.Direct.Plan.Due(&m.all.Port.Data) {
			t.Fatal("the fourth message of one size is not expected")
		}
		if p.send(p.ep.Prepare(3, msg)); !errors.Is(p.err, ErrUnwanted) {
			t.Errorf("ended with %v", p.err)
		}
	}
}
