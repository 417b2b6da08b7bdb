package stream

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// Hosts in virtual time: each has two nodes of the simulated network, one for the transport and one
// for datagrams, and both give passes to one engine.

// simHost is an engine in the simulator.
type simHost struct {
	*Engine
	ctl, data *sim.Node
	after     func() // at the end of each pass: the program's part
}

// Progress implements sim.Process.
func (h *simHost) Progress(now mono.Time) (int, error) {
	n, err := h.Engine.Progress(now)
	if h.after != nil {
		h.after()
	}
	return n, err
}

// simWorld is a sender's host and some receivers'.
type simWorld struct {
	keys      uint64 // is added to the keys of the next stream
	t         testing.TB
	nw        *sim.Network
	tx        *simHost
	rx        []*simHost
	dropped   uint64 // data datagrams that the network has dropped
	copied    uint64
	delivered uint64
	aimed     map[int]int // datagrams of the sender, by the node that they went to
	// moreRegions has receivers' rings be larger than the sender's: then a place has other content in
	// each lap.
	moreRegions int
	// The rings of the sender and of the receivers have a slice of memory for each region.
	txApart, rxApart bool
	// hosts are the IP addresses of nodes. If hosts is not nil, new hosts of the world know them.
	hosts map[int]string
}

func newSimWorld(t testing.TB, seed uint64, receivers int) *simWorld {
	t.Helper()
	return newSimWorldOf(t, sim.Config{Seed: seed, FreeRegions: true}, receivers)
}

func newSimWorldOf(t testing.TB, cfg sim.Config, receivers int) *simWorld {
	t.Helper()
	w := &simWorld{t: t, aimed: map[int]int{}}
	cfg.Observe = func(ev *sim.Event) {
		if w.tx == nil || ev.From.Node != w.tx.data.Index() {
			return
		}
		if ev.Kind.Entry() {
			w.aimed[ev.To.Node]++
		}
		if h, ok := parseHeader(ev.Data); ok && h.datagram == probeDatagram {
			return // no message is in it
		}
		switch {
		case ev.Kind.Drop():
			w.dropped++
		case ev.Kind == sim.KindDuplicated:
			w.copied++
		case ev.Kind == sim.KindDelivered:
			w.delivered++
		}
	}
	nw, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.nw = nw
	tx := w.host("tx")
	for i := range receivers {
		w.rx = append(w.rx, w.host(fmt.Sprintf("rx%d", i)))
	}
	w.tx = tx
	t.Cleanup(func() {
		for _, v := range nw.Violations() {
			t.Error(v)
		}
	})
	return w
}

func (w *simWorld) host(name string) *simHost { return w.hostOf(name, btl.Config{}) }

// hostOf returns a host whose module has the given configuration, except for what all hosts have.
func (w *simWorld) hostOf(name string, cfg btl.Config) *simHost {
	w.t.Helper()
	h := &simHost{ctl: w.nw.Node(name + "-ctl"), data: w.nw.Node(name + "-data")}
	ctl, err := h.ctl.Open(fabric.DomainConfig{Buffers: 2048})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.hosts != nil {
		ctl = town{ctl, w.hosts}
	}
	cfg.SendBuffers, cfg.RecvDepth = 512, 256
	cfg.PeerTimeout, cfg.KeepAlive = 10*time.Second, 3*time.Second
	cfg.Random = rand.New(rand.NewPCG(uint64(h.ctl.Index()), 7)).Uint64
	m, err := btl.Open(ctl, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	data, err := h.data.Open(DataConfig(fabric.Info{MTUBytes: 1472}))
	if err != nil {
		w.t.Fatal(err)
	}
	if h.Engine, err = NewEngine(m, data); err != nil {
		w.t.Fatal(err)
	}
	h.ctl.Run(h)
	h.data.Run(h)
	return h
}

// setPath makes the way of the datagrams from the sender bad.
func (w *simWorld) setPath(p sim.Path) {
	for _, rx := range w.rx {
		w.nw.SetPath(w.tx.data, rx.data, p)
	}
}

// simStream is a stream under way, and its reader.
type simStream struct {
	w      *simWorld
	tx     *Sender
	rx     *Receiver
	slow   int // the reader looks only at every so many passes
	passes int
	wrong  int
	got    uint64
	gaps   uint64
	held   []Region
}

// open starts a stream from the first host to a receiver. The ring's content is that of each slot.
func (w *simWorld) open(cfg Config, g Geometry, to int) *simStream {
	w.t.Helper()
	s := &simStream{w: w}
	txRing := w.ring(g, w.txApart)
	for i := range g.Messages() {
		fillMessage(txRing.Message(i/g.RegionMessages, i%g.RegionMessages), uint64(i))
	}
	rg := g
	rg.Regions += w.moreRegions
	rxRing := w.ring(rg, w.rxApart)
	var err error
	rcfg := cfg
	rcfg.Gap = func(first, last uint64) { s.gaps += last - first + 1 }
	rcfg.Unmonitored = false
	if s.rx, err = w.rx[to].newReceiver(rxRing, rcfg, 77+w.keys); err != nil {
		w.t.Fatal(err)
	}
	cfg.Unmonitored = true
	if s.tx, err = w.tx.newSender(txRing, cfg, 99+w.keys); err != nil {
		w.t.Fatal(err)
	}
	if err := s.tx.addReceiver(s.rx.Identity()); err != nil {
		w.t.Fatal(err)
	}
	w.keys += 100
	w.rx[to].after = s.read
	w.tx.ctl.Kick()
	return s
}

// ring returns a ring in one piece, or one of a slice for each region.
func (w *simWorld) ring(g Geometry, apart bool) *Ring {
	w.t.Helper()
	var blocks [][]byte
	if apart {
		for range g.Regions {
			blocks = append(blocks, make([]byte, g.RegionBytes()))
		}
	}
	r, err := NewRing(g, blocks...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// read is the reader: it gives back what it has seen.
func (s *simStream) read() {
	s.passes++
	if s.slow > 0 && s.passes%s.slow != 0 {
		return
	}
	for _, r := range s.held {
		s.compare(r) // it was the reader's: nobody may have touched it meanwhile
		s.rx.Release(r)
	}
	s.held = s.held[:0]
	for {
		select {
		case r, ok := <-s.rx.regions:
			if !ok {
				return
			}
			s.got += s.compare(r)
			s.held = append(s.held, r)
		default:
			return
		}
	}
}

// compare checks the bytes of a region, and returns how many of its messages are there.
func (s *simStream) compare(r Region) (there uint64) {
	g := s.rx.ring.geo
	want := make([]byte, g.MessageBytes)
	for k := range r.Messages {
		clear(want)
		if n, ok := s.rx.ring.Transferred(r.Index, k); ok {
			there++
			fillMessage(want, (n-s.tx.cfg.First)%uint64(s.tx.ring.geo.Messages()))
		}
		if !bytes.Equal(r.Bytes[k*g.MessageBytes:][:g.MessageBytes], want) {
			s.wrong++
		}
	}
	return there
}

// ended says whether both sides are done.
func (s *simStream) ended() bool { return s.tx.state == stateDone && s.rx.state == stateDone }

// until runs the network until cond, for at most a time.
func (w *simWorld) until(limit time.Duration, cond func() bool) {
	w.t.Helper()
	end := w.nw.Now().Add(limit)
	for !cond() {
		if w.nw.Now() > end || !w.nw.Step() {
			w.t.Fatalf("not within %v", limit)
		}
	}
}

// verdict checks the sums of a stream whose messages are one datagram each.
func (s *simStream) verdict(total, dropped, copied uint64) {
	t := s.w.t
	t.Helper()
	s.slow = 0
	s.read()
	if err := errors.Join(s.tx.err, s.rx.err); err != nil {
		t.Fatal(err)
	}
	st := s.rx.Stats()
	if st.Sent != total || st.Received != s.got || st.Missing != dropped || st.Duplicates != copied ||
		st.MissingDatagrams != dropped ||
		st.Received+st.Late+st.Overrun+st.Missing != total || s.gaps != total-st.Received ||
		s.wrong != 0 {
		t.Errorf("dropped %d, copied %d, read %d, wrong %d, gaps %d of %d: %+v", dropped, copied, s.got,
			s.wrong, s.gaps, total, st)
	}
	if reports := s.tx.Reports(); len(reports) != 1 || reports[0].Received != st.Received {
		t.Errorf("reports: %+v", reports)
	}
}

// badPath is one with everything.
var badPath = sim.Path{
	Delay: time.Millisecond, Jitter: 100 * time.Microsecond, Loss: .01, Duplicate: .01,
	BurstStart: .001, BurstEnd: .1, BurstLoss: .8, Reorder: .02, ReorderDelay: 500 * time.Microsecond,
}

// badControl is badPath without bursts: these end after some packets, and a path that carries one
// in seconds would be dead for a minute.
var badControl = sim.Path{
	Delay: time.Millisecond, Jitter: 100 * time.Microsecond, Loss: .02, Duplicate: .01, Reorder: .02,
	ReorderDelay: 500 * time.Microsecond,
}

// TestCountsEqualTheNetworks: what the receiver counts is what the network did, exactly.
func TestCountsEqualTheNetworks(t *testing.T) {
	const total = 20_000
	ordinal := func(d *sim.Datagram) (uint64, bool) {
		h, ok := parseHeader(d.Data)
		return h.ordinal, ok && h.datagram != probeDatagram
	}
	for _, c := range []struct {
		name  string
		path  sim.Path
		first uint64
		drop  func(n uint64) bool // by number from 0
		size  int
	}{
		{name: "bad path", path: badPath, size: 1000},
		{name: "wrap of 2^32", path: badPath, first: 1<<32 - total/2, size: 64},
		{name: "first 50", drop: func(n uint64) bool { return n < 50 }, size: 64},
		{name: "last 50", drop: func(n uint64) bool { return n >= total-50 }, size: 64},
		{name: "a long gap", drop: func(n uint64) bool { return n > 100 && n < 15_000 }, size: 64},
		{name: "all", drop: func(uint64) bool { return true }, size: 64},
		{name: "every second", drop: func(n uint64) bool { return n%2 == 1 }, size: 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			w := newSimWorld(t, seed, 1)
			w.txApart, w.rxApart = seed&1 == 0, seed&2 == 0
			w.setPath(c.path)
			if c.drop != nil {
				w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
					n, ok := ordinal(d)
					return sim.Verdict{Drop: ok && c.drop(n-c.first)}
				})
			}
			s := w.open(Config{
				Mode: Unreliable, Messages: total, First: c.first,
				BitsPerSecond: float64(c.size) * 8 * 50_000,
			}, Geometry{c.size, 16, 32}, 0)
			w.until(time.Minute, s.ended)
			s.verdict(total, w.dropped, w.copied)
			if late := s.rx.Stats().Late; late != 0 {
				t.Errorf("%d late: the horizon is wider than the disorder", late)
			}
		})
	}
}

// TestReliableOverBadPath: nothing is missing, though the transport's own path is bad.
func TestReliableOverBadPath(t *testing.T) {
	for _, slow := range []int{0, 50, 0, 50, 0, 50, 0, 50} {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		w := newSimWorld(t, seed, 1)
		w.moreRegions = 2
		w.txApart, w.rxApart = seed&1 == 0, seed&2 == 0
		w.nw.SetPath(w.tx.ctl, w.rx[0].ctl, badPath)
		w.nw.SetPath(w.rx[0].ctl, w.tx.ctl, badPath)
		s := w.open(Config{Messages: 3000, First: 1<<32 - 1000}, Geometry{3000, 5, 7}, 0)
		s.slow = slow
		w.until(10*time.Minute, s.ended)
		s.verdict(3000, 0, 0)
	}
}

// TestSlowReader: the policies differ, the sums do not.
func TestSlowReader(t *testing.T) {
	for _, overrun := range []Overrun{Block, Drop} {
		w := newSimWorld(t, 5, 1)
		w.setPath(sim.Path{Delay: time.Millisecond})
		s := w.open(Config{
			Mode: Unreliable, Messages: 20_000, BitsPerSecond: 64 * 8 * 50_000, Overrun: overrun,
		}, Geometry{64, 4, 8}, 0)
		s.slow = 3000
		w.until(time.Hour, s.ended)
		st := s.rx.Stats()
		s.verdict(20_000, w.dropped, 0)
		if overrun == Drop && (st.Overrun == 0 || w.dropped != 0) {
			t.Errorf("drop: %d dropped by the network, %+v", w.dropped, st)
		}
		if overrun == Block && (st.Overrun != 0 || w.dropped == 0) {
			t.Errorf("block: %d dropped by the network, %+v", w.dropped, st)
		}
	}
}

// TestLateReceiver: who comes late misses what was sent before, and knows how much.
func TestLateReceiver(t *testing.T) {
	w := newSimWorld(t, 6, 2)
	w.setPath(sim.Path{Delay: time.Millisecond})
	cfg := Config{Mode: Unreliable, Messages: 10_000, BitsPerSecond: 64 * 8 * 5000}
	g := Geometry{64, 4, 8}
	s := w.open(cfg, g, 0)
	w.until(time.Minute, func() bool { return s.tx.stats.Sent > 3000 })
	ring, _ := NewRing(g, nil)
	late, err := w.rx[1].newReceiver(ring, cfg, 78)
	if err != nil {
		t.Fatal(err)
	}
	second := &simStream{w: w, tx: s.tx, rx: late}
	w.rx[1].after = second.read
	if err := s.tx.addReceiver(late.Identity()); err != nil {
		t.Fatal(err)
	}
	w.until(time.Minute, func() bool { return s.ended() && late.state == stateDone })
	st := late.Stats()
	if st.Sent != 10_000 || st.Missing < 3000 || st.Missing > 4000 ||
		st.Received+st.Missing != st.Sent || second.got != st.Received {
		t.Errorf("late: read %d, %+v", second.got, st)
	}
	if st := s.rx.Stats(); st.Received != 10_000 {
		t.Errorf("first: %+v", st)
	}
}

// TestDay is 24 hours of both modes under faults: the counts are right at the end, and the memory
// of hour 2 is that of hour 24.
func TestDay(t *testing.T) {
	hours := 24
	if testing.Short() || raceDetector {
		hours = 3
	}
	for _, mode := range []Mode{Unreliable, Reliable} {
		t.Run(mode.String(), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			w := newSimWorld(t, seed, 1)
			w.setPath(badPath)
			w.nw.SetPath(w.tx.ctl, w.rx[0].ctl, badControl)
			w.nw.SetPath(w.rx[0].ctl, w.tx.ctl, badControl)
			const perHour = 3600 * 5 / 2
			total := uint64(hours * perHour)
			s := w.open(Config{
				Mode: mode, Messages: total, First: 1<<32 - total/2, Delay: 400 * time.Millisecond,
			}, Geometry{600, 8, 16}, 0)
			w.until(time.Minute, func() bool { return s.rx.state == stateRunning })
			var early, heap runtime.MemStats
			for hour := 1; !s.ended() && hour < hours+3; hour++ {
				w.nw.After(20*time.Minute, func() { w.rx[0].ctl.Pause(4 * time.Second) })
				w.nw.After(20*time.Minute, func() { w.rx[0].data.Pause(4 * time.Second) })
				w.nw.After(40*time.Minute, func() { w.tx.ctl.Pause(3 * time.Second) })
				w.nw.RunUntil(w.nw.Now().Add(time.Hour))
				runtime.GC()
				if runtime.ReadMemStats(&heap); hour == 2 {
					early = heap
				}
			}
			if !s.ended() {
				t.Fatalf("not ended: %+v", s.rx.Stats())
			}
			dropped, copied := w.dropped, w.copied
			if mode == Reliable {
				dropped, copied = 0, 0
			}
			s.verdict(total, dropped, copied)
			if grown := int64(heap.HeapAlloc) - int64(early.HeapAlloc); grown > 1<<20 {
				t.Errorf("the heap has grown by %d bytes since hour 2", grown)
			}
			t.Logf("%d messages, %d missing, %d duplicates, heap %d KiB", total, dropped, copied,
				heap.HeapAlloc>>10)
		})
	}
}

// TestStalledReader: a reader that gives nothing back ends the stream on both sides, in either
// mode, in time.
func TestStalledReader(t *testing.T) {
	for _, mode := range []Mode{Reliable, Unreliable} {
		w := newSimWorld(t, 7, 1)
		s := w.open(Config{
			Mode: mode, Messages: 2000, BitsPerSecond: 64 * 8 * 5000, Timeout: 5 * time.Second,
		}, Geometry{64, 4, 8}, 0)
		w.until(time.Minute, func() bool { return s.rx.stats.Regions > 20 })
		w.rx[0].after = nil
		since := w.nw.Now()
		w.until(7*time.Second, s.ended)
		if took := w.nw.Now().Sub(since); took < 5*time.Second {
			t.Errorf("%v: gives up after %v", mode, took)
		}
		tx, rx := s.tx.Err(), s.rx.Err()
		if !errors.Is(tx, ErrStalled) && !errors.Is(rx, ErrStalled) ||
			!errors.Is(tx, ErrPeerFailed) && !errors.Is(rx, ErrPeerFailed) {
			t.Errorf("%v: sender %v, receiver %v", mode, tx, rx)
		}
	}
}

// TestCrash: the other side ends with ErrPeerLost in the time-out and its quarter.
func TestCrash(t *testing.T) {
	for _, mode := range []Mode{Reliable, Unreliable} {
		for _, sender := range []bool{true, false} {
			w := newSimWorld(t, 8, 1)
			s := w.open(Config{Mode: mode, Messages: 1 << 40, BitsPerSecond: 64 * 8 * 5000},
				Geometry{64, 4, 8}, 0)
			w.until(time.Minute, func() bool { return s.rx.stats.Datagrams > 20 })
			host, err := w.tx, &s.rx.err
			if !sender {
				host, err = w.rx[0], &s.tx.err
			}
			host.ctl.Crash()
			host.data.Crash()
			w.until(14*time.Second, func() bool { return *err != nil })
			if !errors.Is(*err, ErrPeerLost) {
				t.Errorf("%v, sender %v: %v", mode, sender, *err)
			}
		}
	}
}

// TestDeadAmongReceivers: one of two reliable receivers dies. The other gets everything, held up
// for no longer than the time-out, and the sender tells the loss.
func TestDeadAmongReceivers(t *testing.T) {
	w := newSimWorld(t, 9, 2)
	cfg := Config{Messages: 20_000, BitsPerSecond: 64 * 8 * 5000, Receivers: 2}
	g := Geometry{64, 4, 8}
	s := w.open(cfg, g, 0)
	ring, _ := NewRing(g, nil)
	other, err := w.rx[1].newReceiver(ring, cfg, 78)
	if err != nil {
		t.Fatal(err)
	}
	second := &simStream{w: w, tx: s.tx, rx: other}
	w.rx[1].after = second.read
	if err := s.tx.addReceiver(other.Identity()); err != nil {
		t.Fatal(err)
	}
	w.until(time.Minute, func() bool { return other.stats.Regions > 100 })
	w.rx[0].ctl.Crash()
	w.rx[0].data.Crash()
	w.until(30*time.Second, func() bool { return s.tx.state == stateDone })
	if !errors.Is(s.tx.err, ErrPeerLost) || other.err != nil || second.got != 20_000 ||
		second.wrong > 0 || len(s.tx.Reports()) != 1 {
		t.Errorf("sender %v, the other %v, read %d", s.tx.err, other.err, second.got)
	}
}
