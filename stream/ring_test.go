package stream

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"gobtl/btl"
	"gobtl/fabric/mem"
	"gobtl/internal/mono"
)

// TestReaderOrder: a reader goes forward, also when a region was left out and comes again while the
// reader is behind.
func TestReaderOrder(t *testing.T) {
	ring := newRing(t, 8, 4, 2)
	fill := func(lap, i uint64) {
		ring.open(int(i), (lap*4+i)*2, 2)
		ring.mark(int(i), 0, 2)
		ring.set(int(i), wordState, regionPopulated)
	}
	reader := ring.NewReader(0)
	next := func(want uint64) {
		t.Helper()
		r, ok := reader.Next()
		if !ok || r.First != want {
			t.Errorf("region of %d (%v), want %d", r.First, ok, want)
		}
		reader.Release()
		reader.Release() // once is enough
	}
	fill(0, 0)
	fill(0, 1)
	next(0)
	next(2)
	fill(0, 3) // nothing came of region 2
	fill(1, 0)
	fill(1, 1)
	fill(1, 2)
	next(6)
	for want := uint64(8); want < 14; want += 2 {
		next(want)
	}
	if r, ok := reader.Next(); ok {
		t.Errorf("a region of %d is left", r.First)
	}
	fill(2, 2) // another process begins to read in the middle
	fill(2, 3)
	fill(3, 0)
	fill(3, 1)
	reader = ring.NewReader(0)
	next(20)
	next(22)
}

// TestReleaseTwice: the second release of a region frees nothing that came meanwhile.
func TestReleaseTwice(t *testing.T) {
	ring := newRing(t, 8, 1, 2)
	r := Receiver{ring: ring}
	ring.open(0, 0, 2)
	ring.set(0, wordState, regionPopulated)
	region := ring.view(0)
	r.Release(region)
	if !ring.Free(0) {
		t.Error("not released")
	}
	ring.open(0, 2, 2)
	r.Release(region)
	ring.SetPopulated(0, false)
	ring.SetPopulated(0, true)
	if ring.get(0, wordState) != regionBusy {
		t.Error("a region that is being filled has changed hands")
	}
	ring.set(0, wordState, regionPopulated)
	r.Release(region)
	if !ring.Populated(0) {
		t.Error("the next one was released")
	}
}

// TestRingEnds: through the file of a ring the producer ends the sender's stream, and the reader
// learns that the receiver's is over.
func TestRingEnds(t *testing.T) {
	dir := t.TempDir()
	g := Geometry{100, 4, 5}
	rings := map[string]*Ring{}
	for _, name := range []string{"out", "in"} {
		file := filepath.Join(dir, name)
		r, err := CreateRing(file, g)
		if err != nil {
			t.Fatal(err)
		}
		other, err := OpenRing(file)
		if err != nil {
			t.Fatal(err)
		}
		rings[name], rings["other "+name] = r, other
	}
	a, b := openPort(t, PortConfig{}), openPort(t, PortConfig{})
	rx, err := b.Receive(rings["in"], Config{})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := a.Send(rings["out"], Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Connect(tx, rx.Identity()); err != nil {
		t.Fatal(err)
	}
	if err := rings["in"].Close(); !errors.Is(err, ErrConfig) {
		t.Errorf("closing the ring of a stream: %v", err)
	}
	for i := range 3 {
		rings["other out"].SetPopulated(i, true)
	}
	rings["other out"].Finish()
	reader, regions := rings["other in"].NewReader(0), 0
	for end := time.Now().Add(patience); !reader.Over(); {
		if _, ok := reader.Next(); ok {
			regions++
			reader.Release()
			continue
		}
		if time.Now().After(end) {
			t.Fatal("the reader never learns of the end")
		}
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(tx.Wait(t.Context()), rx.Wait(t.Context())); err != nil || regions != 3 {
		t.Errorf("%d regions, %v", regions, err)
	}
	if !rings["other out"].Over() {
		t.Error("the producer does not learn of the end")
	}
	for _, name := range []string{"out", "in", "other out", "other in"} {
		if err := rings[name].Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRingIsReadUntilTheEnd: a sender that fails keeps its ring until the fabric reads it no more.
func TestRingIsReadUntilTheEnd(t *testing.T) {
	nw := mem.New(mem.Config{})
	a, b := memEngine(t, nw), memEngine(t, nw)
	ring := newRing(t, 1000, 4, 8)
	tx, err := a.newSender(ring, Config{Messages: 1 << 20, Unmonitored: true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	rx, err := b.newReceiver(newRing(t, 1000, 4, 8), Config{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.addReceiver(rx.Identity()); err != nil {
		t.Fatal(err)
	}
	now := mono.Time(0)
	pass := func(engines ...*Engine) {
		now += 1000
		for _, e := range engines {
			if _, err := e.Progress(now); err != nil {
				t.Fatal(err)
			}
		}
	}
	for tx.underWay == 0 {
		pass(a, b)
	}
	tx.fail(errors.New("enough"))
	pass(a)
	if ring.claim() {
		t.Fatal("the ring is free while puts read it")
	}
	for tx.underWay > 0 {
		pass(a, b)
	}
	pass(a)
	if !ring.claim() || !ring.Free(0) {
		t.Error("the ring is not given back")
	}
}

// TestReliableRemembersNothing: a reliable receiver keeps no history of datagrams.
func TestReliableRemembersNothing(t *testing.T) {
	if a := newFiller(newRing(t, 8, 4, 2), 7); len(a.track.state) != 0 || a.track.edge != 7 {
		t.Errorf("%d messages remembered", len(a.track.state))
	}
}

// TestTooFarAhead: an ordinal that no sender can have reached is foreign, also where nobody has
// said how many messages there will be.
func TestTooFarAhead(t *testing.T) {
	r := Receiver{
		e: &Engine{}, ring: newRing(t, 8, 4, 2), cfg: Config{Timeout: time.Second, First: 10},
		started: make(chan struct{}),
	}
	r.cfg.Mode = Unreliable
	r.asm = newAssembler(r.ring, 10, 1, 8)
	r.asm.overwrite = true
	r.state = stateRunning
	r.sent(10)
	payload := make([]byte, 8)
	for _, n := range []uint64{1 << 62, 10 + 3*leapPerSecond, 9} {
		r.datagram(header{ordinal: n}, payload, false)
	}
	if tr := &r.asm.track; tr.foreign != 3 || tr.sent() != 0 || r.heard != 0 {
		t.Errorf("%d foreign, %d sent", tr.foreign, tr.sent())
	}
	r.datagram(header{ordinal: 1 << 20}, payload, false)
	r.sent(1 << 40)
	r.datagram(header{ordinal: 1<<40 + 5}, payload, false)
	if tr := &r.asm.track; tr.foreign != 3 || tr.received != 2 || tr.edge != 1<<40+6 {
		t.Errorf("%d foreign, %d received, edge %d", tr.foreign, tr.received, tr.edge)
	}
}

// TestDropCount: a counter of 32 bits wraps, and a sum of them never falls.
func TestDropCount(t *testing.T) {
	var c dropCount
	for _, s := range []struct{ value, want uint64 }{
		{5, 5}, {1<<32 - 1, 1<<32 - 1}, {3, 1<<32 + 3}, {3, 1<<32 + 3}, {10, 1<<32 + 10},
	} {
		if got := c.look(s.value); got != s.want {
			t.Errorf("%d after %d, want %d", got, s.value, s.want)
		}
	}
}

// Memory that a ring allocates begins with a page, however small the ring is.
func TestRingIsOnPages(t *testing.T) {
	for _, bytes := range []int{1, 3000, 65536, 100_000} {
		r, err := NewRing(Geometry{MessageBytes: bytes}, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := uintptr(unsafe.Pointer(unsafe.SliceData(r.Bytes())))
		if at%uintptr(os.Getpagesize()) != 0 || len(r.Bytes()) != bytes {
			t.Errorf("a ring of %d bytes has %d at %#x", bytes, len(r.Bytes()), at)
		}
	}
}

// Memory that does not fit the ring, in one piece or in several, is refused.
func TestBlocksOfARing(t *testing.T) {
	g := Geometry{MessageBytes: 100, Regions: 3, RegionMessages: 2}
	block := func(n int) []byte { return make([]byte, n) }
	for name, c := range map[string]struct {
		g      Geometry
		blocks [][]byte
		ok     bool
	}{
		"none":        {g, nil, true},
		"nil":         {g, [][]byte{nil}, true},
		"one":         {g, [][]byte{block(600)}, true},
		"three":       {g, [][]byte{block(200), block(200), block(200)}, true},
		"two":         {g, [][]byte{block(200), block(200)}, false},
		"one of them": {g, [][]byte{block(200)}, false},
		"uneven":      {g, [][]byte{block(200), block(199), block(201)}, false},
		"with nil":    {g, [][]byte{block(200), nil, block(200)}, false},
		"many":        {Geometry{1, BlocksMax + 1, 1}, ones(BlocksMax + 1), false},
		"most":        {Geometry{1, BlocksMax, 1}, ones(BlocksMax), true},
	} {
		r, err := NewRing(c.g, c.blocks...)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.ok && len(c.blocks) > 1 && (r.Bytes() != nil || &r.Message(2, 0)[0] != &c.blocks[2][0]) {
			t.Errorf("%s: a message does not lie in its block", name)
		}
	}
}

// ones returns slices of one byte each.
func ones(n int) (blocks [][]byte) {
	for range n {
		blocks = append(blocks, make([]byte, 1))
	}
	return blocks
}

// A ring of the most blocks carries a stream: the letter with the right to put fits.
func TestMostBlocks(t *testing.T) {
	w := newSimWorld(t, 3, 1)
	w.txApart, w.rxApart = true, true
	s := w.open(Config{Messages: 2000}, Geometry{64, BlocksMax, 1}, 0)
	w.until(time.Minute, s.ended)
	s.verdict(2000, 0, 0)
}

// Over a fabric that must be told of memory before it reads it, the bytes of a stream's puts are
// read from the ring, and not copied.
func TestRingIsRegistered(t *testing.T) {
	nw := mem.New(mem.Config{})
	a, b := memEngine(t, nw), memEngine(t, nw)
	const total, size = 1000, 8000
	tx, err := a.newSender(newRing(t, size, 4, 8), Config{Messages: total, Unmonitored: true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	rx, err := b.newReceiver(newRing(t, size, 4, 8), Config{Unmonitored: true}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.addReceiver(rx.Identity()); err != nil {
		t.Fatal(err)
	}
	if len(tx.registered) != 1 {
		t.Fatalf("%d registrations", len(tx.registered))
	}
	for now := mono.Time(0); tx.state != stateDone || rx.state != stateDone; now += 1000 {
		for _, e := range []*Engine{a, b} {
			if _, err := e.Progress(now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(tx.err, rx.err); err != nil {
		t.Fatal(err)
	}
	stats := a.m.Stats()
	if n := stats.Get(btl.CntSentGatheredBytes); n < total*size*9/10 {
		t.Errorf("%d of %d bytes were read from the ring", n, total*size)
	}
}
