package btl

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/btl/internal/keep"
	"gobtl/btl/internal/port"
	"gobtl/fabric/mem"
	"gobtl/internal/limits"
	"gobtl/internal/testenv"
)

// keeper is a module whose handlers keep what arrives, and what they have kept.
type keeper struct {
	*vectorPair
	keeps func() bool
	kept  []*Kept
	idle  []*Kept
}

func newKeeper(tb testing.TB, net mem.Config, cfg Config) *keeper {
	k := &keeper{keeps: func() bool { return true }}
	k.vectorPair = newVectorPair(tb, net, cfg)
	k.whole = make([]byte, 0, 1<<20)
	if err := k.mods[1].Handle(2, func(_ *Endpoint, _ Tag, data []byte) {
		k.got++
		if k.keeps() {
			k.keep(data)
		}
	}); err != nil {
		tb.Fatal(err)
	}
	return k
}

func (k *keeper) keep(data []byte) {
	var e *Kept
	if n := len(k.idle); n > 0 {
		e, k.idle = k.idle[n-1], k.idle[:n-1]
	} else {
		e = new(Kept)
	}
	if err := k.mods[1].Keep(e, data); err != nil {
		k.tb.Error(err)
	}
	k.kept = append(k.kept, e)
}

// release releases the i-th of what is kept.
func (k *keeper) release(i int) {
	e, last := k.kept[i], len(k.kept)-1
	k.kept[i] = k.kept[last]
	k.kept = k.kept[:last]
	e.Release()
	k.idle = append(k.idle, e)
}

func (k *keeper) stats() Stats {
	k.mods[1].publish()
	return k.mods[1].Stats()
}

// What is kept stays as it is, whatever comes meanwhile and however it came: as a fragment of its
// own, received fast or not, in a pack, in chunks. Beyond the bounds it is copied. What is released
// is used again.
func TestKeep(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testenv.Seed(t, 1), 2))
	for _, cfg := range []Config{
		{},
		{KeptPackets: 3, RecvDepth: 16, limits: limits.Limits{KeptBytesMax: 30_000}},
		{KeptPackets: -1},
	} {
		k := newKeeper(t, mem.Config{InjectBytes: 1472}, cfg)
		k.keeps = func() bool { return rnd.IntN(3) > 0 }
		want := map[*Kept][]byte{}
		look := func() {
			for _, e := range k.kept {
				if want[e] == nil {
					want[e] = append([]byte{1}, e.Bytes()...)
				} else if !bytes.Equal(want[e][1:], e.Bytes()) {
					t.Fatalf("%+v: %d bytes that are kept have changed", cfg, len(e.Bytes()))
				}
			}
		}
		for range 400 {
			size := rnd.IntN([...]int{1, 100, 1400, 20_000}[rnd.IntN(4)] + 1)
			msg := make([]byte, size)
			for i := range msg {
				msg[i] = byte(rnd.Uint32())
			}
			for range rnd.IntN(4) { // which are packed
				sendOrFail(t, k.ep, 2, msg[:min(100, len(msg))])
			}
			k.send(k.ep.Prepare(2, msg))
			look()
			for len(k.kept) > rnd.IntN(20) {
				i := rnd.IntN(len(k.kept))
				delete(want, k.kept[i])
				k.release(i)
			}
			k.step(5 * time.Microsecond)
			look()
		}
		for len(k.kept) > 0 {
			k.release(0)
		}
		k.step(5 * time.Microsecond)
		if err := k.mods[1].CheckIdle(); err != nil {
			t.Error(err)
		}
		s := k.stats()
		kept := s.Get(CntKeptPackets) + s.Get(CntKeptMessages)
		if kept > 0 != (cfg.KeptPackets >= 0) || s.Get(CntKeptCopies) == 0 && cfg.KeptPackets != 0 {
			t.Errorf("%+v: %d kept in place, %d copied", cfg, kept, s.Get(CntKeptCopies))
		}
	}
}

// A fragment of one packet, a record of a pack, a large fragment: none is copied to be kept, nor is
// a part of one.
func TestKeepCopiesNothing(t *testing.T) {
	k := newKeeper(t, mem.Config{InjectBytes: 1472}, Config{KeptPackets: 8})
	var given []byte
	if err := k.mods[1].Handle(2, func(_ *Endpoint, _ Tag, data []byte) {
		given = data
		k.keep(data[len(data)/2:])
	}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{10, 1400, 100_000} {
		k.send(k.ep.Prepare(2, make([]byte, size)))
		e := k.kept[len(k.kept)-1]
		if !port.Within(e.Bytes(), given) || len(e.Bytes()) != size-size/2 {
			t.Errorf("%d bytes are kept elsewhere", size)
		}
	}
	for range 20 { // the second one on share a packet
		sendOrFail(t, k.ep, 2, make([]byte, 100))
	}
	k.until("all are there", time.Microsecond, time.Second, func() bool { return len(k.kept) == 23 })
	if s := k.stats(); s.Get(CntKeptCopies) != 0 || s.Get(CntKeptPackets) != 22 {
		t.Errorf("%d fragments copied, %d in packets", s.Get(CntKeptCopies), s.Get(CntKeptPackets))
	}
	if got := k.mods[1].all.Port.Keeper.Kept(); got > 6 {
		t.Errorf("%d packets are kept of 22 fragments that shared them", got)
	}
}

// What is no handler's is copied; a Kept holds one thing; Release may come twice, and after Close.
func TestKeepEdges(t *testing.T) {
	k := newKeeper(t, mem.Config{}, Config{})
	m := k.mods[1]
	k.send(k.ep.Prepare(2, []byte("packet")))
	k.send(k.ep.Prepare(2, make([]byte, 50_000)))
	if err := m.Keep(k.kept[0], []byte("again")); !errors.Is(err, ErrState) {
		t.Errorf("a second thing: %v", err)
	}
	var e, empty Kept
	late := m.all.Port.Arena.Bytes(m.all.Port.FirstReceive())[:8]
	err := errors.Join(m.Keep(&e, late), m.Keep(&empty, nil))
	if err != nil || e.in.Place() != keep.Copy {
		t.Errorf("bytes of before are kept in %v: %v", e.in.Place(), err)
	}
	e.Release()
	e.Release()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if len(k.kept[0].Bytes()) != 6 || len(k.kept[1].Bytes()) != 50_000 {
		t.Errorf("after Close %d bytes of a packet, %d of a large fragment", len(k.kept[0].Bytes()),
			len(k.kept[1].Bytes()))
	}
	for _, e := range k.kept {
		e.Release()
	}
}

// Who releases a packet while its records are delivered can keep it again.
func TestKeepAgain(t *testing.T) {
	k := newKeeper(t, mem.Config{InjectBytes: 1472}, Config{KeptPackets: 2})
	var e Kept
	if err := k.mods[1].Handle(2, func(_ *Endpoint, _ Tag, data []byte) {
		k.got++
		e.Release()
		err := k.mods[1].Keep(&e, data)
		if err != nil || e.Bytes()[0] != data[0] || e.in.Place() != keep.Packet {
			t.Errorf("message %d is kept in %v: %v", k.got, e.in.Place(), err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		sendOrFail(t, k.ep, 2, []byte{byte(i)})
	}
	k.until("all are there", time.Microsecond, time.Second, func() bool { return k.got == 12 })
	if k.mods[1].all.Port.Keeper.Kept() != 1 || e.Bytes()[0] != 11 {
		t.Errorf("%d packets kept, message %d", k.mods[1].all.Port.Keeper.Kept(), e.Bytes()[0])
	}
}

// Two who keep everything hinder nobody: all comes, and what is beyond the bounds is copied.
func TestKeepEverything(t *testing.T) {
	k := newKeeper(t, mem.Config{}, Config{
		KeptPackets: 2, RecvDepth: 16, FragmentBytesMax: 40_000, ReassemblyBytesMax: 80_000,
		limits: limits.Limits{KeptBytesMax: 100_000},
	})
	for range 50 {
		k.send(k.ep.Prepare(2, make([]byte, 40_000)))
		k.send(k.ep.Prepare(2, make([]byte, 1000)))
	}
	s := k.stats()
	if k.got != 100 || s.Get(CntKeptPackets) != 2 || s.Get(CntKeptMessages) != 2 ||
		s.Get(CntKeptCopies) != 96 {
		t.Errorf("%d came, %d and %d kept, %d copied", k.got, s.Get(CntKeptPackets),
			s.Get(CntKeptMessages), s.Get(CntKeptCopies))
	}
	k.step(time.Microsecond)
}

// keepRound returns a function that sends a message, of which the peer keeps the latest eight, or
// copies of them.
func keepRound(tb testing.TB, size int, copies bool) func() {
	cfg := Config{KeptPackets: 16}
	if copies {
		cfg = Config{KeptPackets: -1}
	}
	k := newKeeper(tb, mem.Config{InjectBytes: 1472, QueueDatagrams: 4096}, cfg)
	msg := make([]byte, size)
	return func() {
		k.send(k.ep.Prepare(2, msg))
		if len(k.kept) == 8 {
			k.release(0)
		}
	}
}

func TestKeepAllocs(t *testing.T) {
	for _, size := range []int{8, 1400, 100_000} {
		round := keepRound(t, size, false)
		for range 300 {
			round()
		}
		if n := testing.AllocsPerRun(100, round); n > 0 {
			t.Errorf("%d bytes: %v allocations", size, n)
		}
	}
}

func BenchmarkKeep(b *testing.B)       { benchmarkKeep(b, false) }
func BenchmarkKeepCopied(b *testing.B) { benchmarkKeep(b, true) }

func benchmarkKeep(b *testing.B, copies bool) {
	const size = 1 << 20
	round := keepRound(b, size, copies)
	b.SetBytes(size)
	for b.Loop() {
		round()
	}
}
