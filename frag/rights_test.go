package frag

import (
	"errors"
	"math/rand/v2"
	"testing"

	"gobtl/internal/testenv"
)

// tightConfig has room below each memory reserve for small fragments only. A peer may have 256 KiB
// before it needs the reserve of PeerBytesMax, and all peers together may have 512 KiB before they
// need the reserve of BytesMax.
var tightConfig = PoolConfig{
	FragBytesMax: 1 << 20, BytesMax: 3 << 19, GrowBytes: 16 << 10, KeepBytes: -1,
}

// addUpTo adds the chunks of a fragment in order, beginning with the given chunk, until the
// fragment's buffer has roomBytes or the fragment is whole. addUpTo returns the next chunk, the
// whole message, and the error that has ended the loop.
func addUpTo(a *Assembler, id, sizeBytes, chunk uint32, roomBytes int64) (uint32, *Message, error) {
	for ; ; chunk++ {
		if m := a.find(id); m != nil && m.capBytes() >= roomBytes {
			return chunk, nil, nil
		}
		h, n := growHeader(id, sizeBytes, chunk)
		if whole, err := a.Add(&h, make([]byte, n), true); whole != nil || err != nil {
			return chunk, whole, err
		}
	}
}

func mustAddUpTo(t *testing.T, a *Assembler, id, sizeBytes, chunk uint32, roomBytes int64) uint32 {
	t.Helper()
	next, whole, err := addUpTo(a, id, sizeBytes, chunk, roomBytes)
	if err != nil || whole != nil {
		t.Fatalf("chunk %d of fragment %d: %v, %v", next, id, whole, err)
	}
	return next
}

// mustEnd adds the rest of a fragment, and releases the whole message.
func mustEnd(t *testing.T, a *Assembler, id, sizeBytes, chunk uint32) {
	t.Helper()
	next, whole, err := addUpTo(a, id, sizeBytes, chunk, 1<<40)
	if err != nil {
		t.Fatalf("chunk %d of fragment %d: %v", next, id, err)
	}
	whole.Release()
}

func mustCheck(t *testing.T, p *Pool, peers []*Assembler) {
	t.Helper()
	err := p.CheckIdle()
	partBytes := int64(0)
	for _, a := range peers {
		err = errors.Join(err, a.Check())
		for _, m := range a.slots {
			if m != nil && m != p.favourite && int(m.class) < classOf(m.sizeBytes) {
				partBytes += m.capBytes()
			}
		}
	}
	if most := p.cfg.BytesMax - int64(p.cfg.FragBytesMax); err != nil || partBytes > most {
		t.Fatalf("%v; fragments that must still grow have %d bytes, at most %d", err, partBytes, most)
	}
}

// TestReserveOfAnotherPeer checks a peer that grows a fragment beyond its own limit, ends all of
// its other fragments, and is silent. A large fragment of another peer must not wait for the silent
// peer.
func TestReserveOfAnotherPeer(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, a *Assembler, next uint32){
		"sent to the end": func(t *testing.T, a *Assembler, next uint32) {
			mustEnd(t, a, 1, 256<<10, next)
		},
		"superseded": func(_ *testing.T, a *Assembler, _ uint32) { a.Supersede(1 + ActiveMax) },
	} {
		t.Run(name, func(t *testing.T) {
			p, peers := newGrowing(t, tightConfig, 2)
			silent, honest := peers[0], peers[1]
			next := mustAddUpTo(t, silent, 1, 256<<10, 0, 256<<10)
			mustAddUpTo(t, silent, 2, 128<<10, 0, 32<<10)
			mustCheck(t, p, peers)
			end(t, silent, next)
			mustCheck(t, p, peers)
			if silent.HasReserve() || silent.Active() != 1 {
				t.Errorf("a peer with %d of %d bytes has the reserve of all peers", silent.ActiveBytes(),
					p.ActiveBytes())
			}
			mustEnd(t, honest, 1, 320<<10, 0)
			mustCheck(t, p, peers)
		})
	}
}

// TestReserveReturned checks a peer that grows a fragment into the reserve of all peers. While the
// reserve is in use, a refusal of another peer says that memory is scarce. After other fragments
// have ended, so that the reserve is unused, another peer gets the reserve.
func TestReserveReturned(t *testing.T) {
	for name, free := range map[string]func(a *Assembler, whole *Message){
		"discarded": func(a *Assembler, whole *Message) { a.Drop(); whole.Release() },
		"kept":      func(a *Assembler, whole *Message) { a.Drop(); whole.Keep() },
	} {
		t.Run(name, func(t *testing.T) {
			p, peers := newGrowing(t, tightConfig, 4)
			other, third, silent, honest := peers[0], peers[1], peers[2], peers[3]
			mustAddUpTo(t, other, 1, 1<<20, 0, 256<<10)
			_, whole, err := addUpTo(third, 1, 250<<10, 0, 1<<40)
			if err != nil {
				t.Fatal(err)
			}
			mustAddUpTo(t, silent, 2, 1<<20, 0, 64<<10)
			if !silent.HasReserve() || honest.HasReserve() {
				t.Fatalf("with %d bytes in use, nobody has the reserve", p.ActiveBytes())
			}
			chunk, msg, err := addUpTo(honest, 1, 1<<20, 0, 1<<40)
			if !Scarce(err) || msg != nil {
				t.Fatalf("chunk %d while another peer has the reserve: %v", chunk, err)
			}
			mustCheck(t, p, peers)
			free(other, whole)
			mustCheck(t, p, peers)
			if silent.HasReserve() {
				t.Errorf("a peer has the reserve, of which nothing is in use: %d bytes", p.ActiveBytes())
			}
			mustEnd(t, honest, 1, 1<<20, chunk)
			mustCheck(t, p, peers)
		})
	}
}

// TestReserveKeptBesidePack checks a fragment that begins in the packet that ends another fragment.
// The new fragment begins in the memory of the other fragment. A third peer's fragment keeps the
// reserve.
func TestReserveKeptBesidePack(t *testing.T) {
	p, peers := newGrowing(t, tightConfig, 3)
	a, other, owner := peers[0], peers[1], peers[2]
	mustAddUpTo(t, other, 1, 1<<20, 0, 256<<10)
	const last = 256 << 10 / growRoom
	for chunk := range uint32(last) {
		h, n := growHeader(1, 256<<10, chunk)
		if _, err := a.Add(&h, make([]byte, n), true); err != nil {
			t.Fatal(err)
		}
	}
	mustAddUpTo(t, owner, 1, 1<<20, 0, 64<<10)
	end, endBytes := growHeader(1, 256<<10, last)
	first, err := a.Reserve(&end, endBytes, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, n := growHeader(2, 1<<20, 0)
	second, err := a.Reserve(&h, n, true, &first)
	if err != nil || !second.Begun || a.starter {
		t.Fatalf("%+v, %v, starter: %v", second, err, a.starter)
	}
	if !owner.HasReserve() || a.HasReserve() {
		t.Error("a new fragment has taken the reserve from another peer's fragment")
	}
	mustCheck(t, p, peers)
}

// TestReserveOfPeerOutOfOrder checks that a fragment that has grown into the reserve of its peer's
// limit grows on with a chunk out of order. No other fragment of the peer grows there out of order.
// A later fragment in order does not wait for an earlier fragment that never ends.
func TestReserveOfPeerOutOfOrder(t *testing.T) {
	p, peers := newGrowing(t, tightConfig, 1)
	a := peers[0]
	h, n := growHeader(4, 300<<10, 0)
	if _, err := a.Add(&h, make([]byte, n), false); err != nil {
		t.Fatal(err)
	}
	mustAddUpTo(t, a, 1, 1<<20, 0, 256<<10)
	mustAddUpTo(t, a, 2, 1<<20, 0, 8<<10)
	mustAddUpTo(t, a, 3, 1<<20, 0, 32<<10)
	for id, want := range map[uint32]error{2: ErrShare, 3: nil} {
		roomBytes := a.find(id).roomBytes()
		h, n := growHeader(id, 1<<20, uint32(roomBytes/growRoom)+1)
		if _, err := a.Add(&h, make([]byte, n), false); !errors.Is(err, want) {
			t.Errorf("fragment %d out of order: %v, want %v", id, err, want)
		}
		if grown := a.find(id).roomBytes() > roomBytes; grown != (want == nil) {
			t.Errorf("fragment %d has grown: %v", id, grown)
		}
	}
	mustEnd(t, a, 4, 300<<10, 1)
	mustCheck(t, p, peers)
}

// scribe sends the fragments of an honest peer, in the order that the protocol requires.
type scribe struct {
	a      *Assembler
	chunks []scribeChunk
	next   int // the first chunk that has not been accepted
}

type scribeChunk struct {
	id, sizeBytes, chunk uint32
	came                 bool
}

func newScribe(a *Assembler, rng *rand.Rand, fragBytesMax int) *scribe {
	s := &scribe{a: a}
	for id := range uint32(1 + rng.IntN(4)) {
		sizeBytes := uint32(growRoom + rng.IntN(fragBytesMax>>rng.IntN(4)-growRoom+1))
		for chunk := uint32(0); chunk*growRoom < sizeBytes; chunk++ {
			s.chunks = append(s.chunks, scribeChunk{id: id, sizeBytes: sizeBytes, chunk: chunk})
		}
	}
	return s
}

// The method "send" sends the chunk with the index i, unless it has been accepted.
func (s *scribe) send(t *testing.T, i int) (*Message, error) {
	t.Helper()
	if i >= len(s.chunks) || s.chunks[i].came {
		return nil, nil
	}
	c := &s.chunks[i]
	h, n := growHeader(c.id, c.sizeBytes, c.chunk)
	m, err := s.a.Add(&h, make([]byte, n), i == s.next)
	if err != nil && !errors.Is(err, ErrBudget) {
		t.Fatal(err)
	}
	c.came = err == nil
	for s.next < len(s.chunks) && s.chunks[s.next].came {
		s.next++
	}
	return m, err
}

// vandalize makes a bad peer add, end or supersede a fragment.
func vandalize(t *testing.T, a *Assembler, rng *rand.Rand, fragBytesMax int) *Message {
	t.Helper()
	id := uint32(rng.IntN(4))
	if rng.IntN(300) == 0 {
		a.Forget(id)
	}
	if rng.IntN(300) == 0 {
		a.Supersede(id + ActiveMax)
	}
	sizeBytes, chunk := uint32(fragBytesMax)>>(2*id), uint32(0)
	if m := a.find(id); m != nil {
		chunk = uint32(m.arrivedBytes / growRoom)
	}
	h, n := growHeader(id, sizeBytes, chunk)
	m, err := a.Add(&h, make([]byte, n), rng.IntN(8) > 0)
	if err != nil && !errors.Is(err, ErrBudget) {
		t.Fatal(err)
	}
	return m
}

// TestReserveModel checks honest peers beside two bad peers that fall silent. If no honest peer can
// go on, one of them must learn that memory is scarce, so that the bad peers are shed. Without the
// bad peers, the honest peers go on to the end.
func TestReserveModel(t *testing.T) {
	seed := testenv.Seed(t, 93)
	cfg := PoolConfig{FragBytesMax: 128 << 10, GrowBytes: 4 << 10, KeepBytes: 32 << 10}
	for run := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, run))
		cfg.BytesMax = int64(cfg.FragBytesMax) + int64(rng.IntN(256<<10))
		p, peers := newGrowing(t, cfg, 5)
		bad := peers[:2]
		scribes := make([]*scribe, 3)
		for i := range scribes {
			scribes[i] = newScribe(peers[2+i], rng, int(cfg.FragBytesMax))
		}
		var held []*Message
		for range rng.IntN(2000) {
			var m *Message
			if i := rng.IntN(5); i < 2 {
				m = vandalize(t, bad[i], rng, int(cfg.FragBytesMax))
			} else if s := scribes[i-2]; rng.IntN(4) > 0 {
				m, _ = s.send(t, s.next)
			} else {
				m, _ = s.send(t, s.next+rng.IntN(20))
			}
			if m != nil {
				held = append(held, m)
			}
			if len(held) > 0 && rng.IntN(20) == 0 {
				held = letGo(held, rng)
			}
			mustCheck(t, p, peers)
		}
		for len(held) > 0 {
			held = letGo(held, rng)
		}
		goOn(t, run, p, peers, scribes)
	}
}

func letGo(held []*Message, rng *rand.Rand) []*Message {
	last := len(held) - 1
	if rng.IntN(2) == 0 {
		held[last].Keep()
		held[last].Return()
	} else {
		held[last].Release()
	}
	return held[:last]
}

// goOn lets the honest peers send to the end. The bad peers, which are the first ones, are silent.
func goOn(t *testing.T, run uint64, p *Pool, peers []*Assembler, scribes []*scribe) {
	t.Helper()
	for shed := false; ; {
		undone, went, scarce := 0, false, false
		for _, s := range scribes {
			if s.next == len(s.chunks) {
				continue
			}
			undone++
			m, err := s.send(t, s.next)
			went, scarce = went || err == nil, scarce || Scarce(err)
			if m != nil {
				m.Release()
			}
		}
		mustCheck(t, p, peers)
		switch {
		case undone == 0:
			return
		case went:
		case shed || !scarce:
			t.Fatalf("run %d: %d honest peers wait for ever, %d bytes in use; shed: %v, scarce: %v", run,
				undone, p.ActiveBytes(), shed, scarce)
		default:
			for _, a := range peers[:len(peers)-len(scribes)] {
				a.Drop()
			}
			shed = true
		}
	}
}

// A peer that discards its fragment takes the right to grow into the reserve from no fragment of
// another peer, which could then lose the right again and again, and never end.
func TestRightStaysBesideDiscard(t *testing.T) {
	p, peers := newGrowing(t, tightConfig, 3)
	mustAddUpTo(t, peers[0], 1, 1<<20, 0, 256<<10)
	mustAddUpTo(t, peers[2], 1, 64<<10, 0, 16<<10)
	next := mustAddUpTo(t, peers[1], 1, 1<<20, 0, 256<<10)
	owner := peers[1].find(1)
	if p.favourite != owner {
		t.Fatal("the fragment that has grown into the reserve has no right")
	}
	peers[0].Forget(1)
	if p.favourite != owner {
		t.Fatal("the fragment has lost the right")
	}
	if _, _, err := addUpTo(peers[0], 2, 1<<20, 0, 256<<10); !errors.Is(err, ErrBudget) {
		t.Errorf("a fragment grows into the reserve of another: %v", err)
	}
	mustEnd(t, peers[1], 1, 1<<20, next)
	if p.favourite != nil {
		t.Error("the right is not free after the end of its fragment")
	}
	mustCheck(t, p, peers)
}
