package btl

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/testenv"
)

// vectorPair is two modules, one of which gets fragments by tag 2, and has a region.
type vectorPair struct {
	*bench
	ep     *Endpoint
	region *Region
	whole  []byte
	got    int
	ended  int
	err    error
	onDone func(*Fragment, error)
}

func newVectorPair(tb testing.TB, net mem.Config, cfg Config) *vectorPair {
	p := &vectorPair{bench: newBench(tb, net, 2, cfg)}
	p.onDone = func(_ *Fragment, err error) { p.ended, p.err = p.ended+1, err }
	m := p.mods[1]
	err := m.Handle(2, func(_ *Endpoint, _ Tag, data []byte) {
		p.whole = append(p.whole[:0], data...)
		p.got++
	})
	if p.region, _ = m.Expose(make([]byte, 1<<20), RemoteWrite); err != nil || p.region == nil {
		tb.Fatal(err)
	}
	p.ep = p.connect(0, 1)
	return p
}

// send sends a fragment, and waits for its end.
func (p *vectorPair) send(f *Fragment, err error) {
	p.tb.Helper()
	if err != nil {
		p.tb.Fatal(err)
	}
	before := p.ended
	f.Signal, f.OnDone = true, p.onDone
	if _, err := p.ep.Send(p.now, f); err != nil {
		p.tb.Fatal(err)
	}
	for p.ended == before {
		p.now = p.now.Add(5 * time.Microsecond)
		for _, m := range p.mods {
			if _, err := m.Progress(p.now); err != nil {
				p.tb.Fatal(err)
			}
		}
	}
}

// split cuts b at random into up to n pieces, of which some may be empty.
func split(draw func(int) int, b []byte, n int) (pieces [][]byte) {
	for range draw(n) {
		k := draw(len(b) + 1)
		pieces, b = append(pieces, b[:k:k]), b[k:]
	}
	return append(pieces, b)
}

// A fragment in pieces comes as one in one piece, whatever its size, the size of packets, and
// whether the fabric gathers. A put in pieces likewise.
func TestVector(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testenv.Seed(t, 1), 1))
	for _, net := range []mem.Config{
		{NoGather: true},
		{FreeRegions: true, InjectBytes: 1472},
		{FreeRegions: true, MTUBytes: 9000},
		{FreeRegions: true, MTUBytes: 512},
	} {
		p := newVectorPair(t, net, Config{})
		for range 150 {
			size := [...]int{1, 100, 5000, 20000, 200_000}[rnd.IntN(5)]
			msg := make([]byte, rnd.IntN(size))
			for i := range msg {
				msg[i] = byte(rnd.Uint32())
			}
			pieces := split(rnd.IntN, msg, PiecesMax)
			switch rnd.IntN(2) {
			case 0:
				p.send(p.ep.PreparePieces(2, pieces...))
				if p.err != nil || !bytes.Equal(p.whole, msg) {
					t.Fatalf("%+v: %d bytes in %d pieces: %v", net, len(msg), len(pieces), p.err)
				}
			default:
				at := rnd.IntN(1000)
				p.send(p.ep.PreparePutPieces(p.region.Handle(), uint64(at), pieces...))
				if p.err != nil || !bytes.Equal(p.region.Bytes()[at:][:len(msg)], msg) {
					t.Fatalf("%+v: a put of %d bytes in %d pieces: %v", net, len(msg), len(pieces), p.err)
				}
			}
			p.step(time.Microsecond) // with a look at the state
		}
		for _, m := range p.mods {
			if err := m.CheckIdle(); err != nil {
				t.Fatal(err)
			}
		}
		p.mods[0].publish()
		s := p.mods[0].Stats()
		if some := s.Get(CntSentGatheredBytes) > 0; some != net.FreeRegions {
			t.Errorf("%+v: %d bytes gathered", net, s.Get(CntSentGatheredBytes))
		}
	}
}

// Of three pieces that end with packets the fabric reads every byte where it lies; of a short
// piece and a long one behind it all but the short one.
func TestVectorCopiesNothing(t *testing.T) {
	p := newVectorPair(t, mem.Config{FreeRegions: true, MTUBytes: 9000}, Config{})
	chunk := p.mods[0].Limits().ChunkBytes
	put := p.ep.MTUBytes() - frag.HeaderBytes(frag.KindChunk, frag.FlagPut)
	a, b, c := make([]byte, 4*chunk), make([]byte, 7*chunk), make([]byte, 3*chunk+17)
	for _, tc := range []struct {
		name   string
		copied int
		build  func() (*Fragment, error)
	}{
		{"three pieces", 0, func() (*Fragment, error) { return p.ep.PreparePieces(2, a, b, c) }},
		{"a short one", 32, func() (*Fragment, error) { return p.ep.PreparePieces(2, a[:32], b) }},
		{"a short one, of one packet", 32, func() (*Fragment, error) {
			return p.ep.PreparePieces(2, a[:32], b[:5000])
		}},
		{"a put", 0, func() (*Fragment, error) {
			return p.ep.PreparePutPieces(p.region.Handle(), 0, a[:4*put], b[:7*put], c[:3*put])
		}},
	} {
		sent := func() int {
			p.mods[0].publish()
			s := p.mods[0].Stats()
			return int(s.Get(CntSentPayloadBytes)) - int(s.Get(CntSentGatheredBytes))
		}
		before := sent()
		p.send(tc.build())
		if copied := sent() - before; copied != tc.copied || p.err != nil {
			t.Errorf("%s: %d bytes copied, %d expected: %v", tc.name, copied, tc.copied, p.err)
		}
	}
}

// What cannot be a fragment in pieces is refused, and costs nothing.
func TestVectorRefused(t *testing.T) {
	p := newVectorPair(t, mem.Config{FreeRegions: true}, Config{})
	one := make([]byte, 8)
	for name, try := range map[string]func() (*Fragment, error){
		"pieces": func() (*Fragment, error) {
			return p.ep.PreparePieces(2, one, one, one, one, one, one, one, one, one)
		},
		"tag":    func() (*Fragment, error) { return p.ep.PreparePieces(TagMax+1, one) },
		"offset": func() (*Fragment, error) { return p.ep.PreparePutPieces(1, 1<<64-4, one) },
	} {
		if _, err := try(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := p.mods[0].CheckIdle(); err != nil {
		t.Error(err)
	}
	f, err := p.ep.PreparePieces(2, make([]byte, 50_000), one)
	if err != nil || p.ep.Free(f) != nil {
		t.Fatal(err)
	}
	p.step(time.Microsecond)
}

// vectorRound returns a function that sends a short piece and three others, or copies them into
// one fragment, and waits for its end.
func vectorRound(tb testing.TB, size int, gather bool) func() {
	net := mem.Config{FreeRegions: true, MTUBytes: 9000, QueueDatagrams: 4096}
	p := newVectorPair(tb, net, Config{})
	head, body := make([]byte, 32), make([]byte, size)
	a, b, c := body[:size/4], body[size/4:size/2], body[size/2:]
	whole := make([]byte, 32+size)
	return func() {
		if gather {
			p.send(p.ep.PreparePieces(2, head, a, b, c))
			return
		}
		n := copy(whole, head)
		for _, piece := range [...][]byte{a, b, c} {
			n += copy(whole[n:], piece)
		}
		p.send(p.ep.Prepare(2, whole))
	}
}

func TestVectorAllocs(t *testing.T) {
	for _, size := range []int{8, 6000, 1 << 20} {
		round := vectorRound(t, size, true)
		for range 100 {
			round()
		}
		if n := testing.AllocsPerRun(50, round); n > 0 {
			t.Errorf("%d bytes: %v allocations", size, n)
		}
	}
}

func BenchmarkSendPieces(b *testing.B)       { benchmarkVector(b, true) }
func BenchmarkSendPiecesCopied(b *testing.B) { benchmarkVector(b, false) }

func benchmarkVector(b *testing.B, gather bool) {
	const size = 1 << 20
	round := vectorRound(b, size, gather)
	b.SetBytes(size)
	for b.Loop() {
		round()
	}
}

// A fragment of one packet whose last piece is copied is done at once, and leaves nothing
// registered.
func TestVectorDoneAtOnce(t *testing.T) {
	p := newVectorPair(t, mem.Config{FreeRegions: true, MTUBytes: 9000}, Config{})
	f, err := p.ep.PreparePieces(2, make([]byte, 5000), make([]byte, 10))
	if err != nil {
		t.Fatal(err)
	}
	if st, err := p.ep.Send(p.now, f); st != Done || err != nil {
		t.Fatalf("status %d, %v", st, err)
	}
	p.step(time.Microsecond)
	if own := p.mods[0].all.Frags.Payloads.Own(); own != 0 {
		t.Errorf("%d registrations are left", own)
	}
}
