package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/internal/limits"
)

// testResmgmt, model: fabtests functional/resmgmt_test. Posting past every queue there is gives
// ErrAgain, and never a message that is lost, doubled or altered.
func testResmgmt(t *testing.T, fx *fixture) {
	immediate := []way{wayImmediate}
	for _, tc := range []struct {
		name string
		cfg  btl.Config
		size func(int) int
		ways []way
	}{
		{"fragments", btl.Config{FragmentsMax: 16}, fixed(3000), []way{wayPrepare}},
		{"send_buffers_alloc", btl.Config{SendBuffers: 64}, fixed(1000), []way{wayAlloc}},
		{"send_buffers_immediate", btl.Config{SendBuffers: 64, PackBytes: 1}, fixed(100), immediate},
		{"transmit_queue", btl.Config{TxDepth: 8, FragmentsMax: 32}, mixed(100, 1400, 9000), allWays},
		{"receive_queue", btl.Config{RecvDepth: 16, FragmentsMax: 32}, mixed(100, 1400, 9000), allWays},
		{"all", btl.Config{
			FragmentsMax: 16, SendBuffers: 64, TxDepth: 4, RecvDepth: 16,
			ReassemblyBytesMax: 96 << 10, FragmentBytesMax: 32 << 10,
		}, mixed(12, 700, 745, 1448, 1449, 20000, 32768), allWays},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name == "all" {
				tc.cfg.SetLimits(limits.Limits{PassPackets: 1, PollBatch: 1})
			}
			l := newLab(t, fx, opts{})
			a, b := l.add(tc.cfg), l.add(tc.cfg)
			there := l.connect(a, b)
			l.until("connected at the other side", func() bool { return len(b.accepted()) == 1 })
			count := 300
			if fx.rough && tc.name == "all" {
				count = 60 // each loss costs a time-out when all buffers wait behind it
			}
			sp := spec{count: count, size: tc.size, ways: tc.ways}
			s := []*stream{l.stream(a, there, b, sp), l.stream(b, b.accepted()[0], a, sp)}
			l.allDone("both ways", s...)
			if s[0].refused == 0 || s[1].refused == 0 {
				t.Errorf("no queue was ever full: refused %d and %d times", s[0].refused, s[1].refused)
			}
			l.settle()
		})
	}
}

// testTables, model: fabtests functional/resmgmt_test too: the tables of a module have bounds, and
// say so with an error that tells what to do.
func testTables(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	small := l.add(btl.Config{PeersMax: 2, RegionsMax: 3, FragmentBytesMax: 1 << 16, FragmentsMax: 16})
	peers := l.addAll(3, btl.Config{})
	ep := l.connect(small, peers[0])
	l.connect(small, peers[1])
	third := peers[2].mod.Name()
	if _, err := small.mod.Connect(small.mod.Now(), third); !errors.Is(err, btl.ErrRefused) {
		t.Errorf("a third peer of two: %v", err)
	}
	late := l.dial(peers[2], small)
	l.until("the peer is refused", func() bool { _, over := peers[2].ended(late); return over })
	if e, _ := peers[2].ended(late); !errors.Is(e.err, btl.ErrRefused) {
		t.Errorf("a peer that found no room: %v", e.err)
	}

	var regions []*btl.Region
	for range 3 {
		r, err := small.mod.Expose(make([]byte, 8), btl.RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		regions = append(regions, r)
	}
	if _, err := small.mod.Expose(nil, btl.RemoteWrite); !errors.Is(err, btl.ErrAgain) {
		t.Errorf("a fourth region of three: %v", err)
	}
	regions[1].Close()
	if _, err := small.mod.Expose(nil, btl.RemoteWrite); err != nil {
		t.Errorf("after a region was closed: %v", err)
	}

	if _, err := ep.Prepare(tagStream, make([]byte, 1<<16+1)); !errors.Is(err, btl.ErrTooLarge) {
		t.Errorf("a fragment that is too large: %v", err)
	}
	if err := ep.SendImmediate(ep.Now(), tagStream, make([]byte, ep.MaxTiny()+1)); !errors.Is(
		err, btl.ErrTooLarge) {
		t.Errorf("a large message sent at once: %v", err)
	}
	var lent []*btl.Fragment
	for {
		f, err := ep.Alloc(tagStream, 100)
		if errors.Is(err, btl.ErrAgain) {
			break
		}
		if err != nil || len(lent) > 16 {
			t.Fatalf("%d fragments of 16 lent, then %v", len(lent), err)
		}
		lent = append(lent, f)
	}
	// One of several peers has as many as it leaves to the others, and an eighth is left by all.
	if len(lent) != 7 {
		t.Errorf("%d fragments of 16 could be lent to one of several peers", len(lent))
	}
	for _, f := range lent {
		if err := ep.Free(f); err != nil {
			t.Error(err)
		}
	}
	s := l.stream(small, ep, peers[0], spec{count: 50, size: mixed(100, 3000)})
	l.allDone("traffic afterwards", s)
	l.settle()
}

// testInject, model: fabtests functional/inject_test. Memory belongs to the caller again when
// SendImmediate, or Send with Done, returns: it is overwritten at once (every stream does that),
// and what arrives is what was there before. No completion follows.
func testInject(t *testing.T, fx *fixture) {
	for _, w := range allWays {
		t.Run(w.String(), func(t *testing.T) {
			l := newLab(t, fx, opts{})
			a, b := l.add(btl.Config{}), l.add(btl.Config{})
			ep := l.connect(a, b)
			l.settle() // so that the peer's credits are here
			var streams []*stream
			for _, size := range []int{streamHead, 64, ep.MaxTiny()} {
				s := l.stream(a, ep, b, spec{count: 300, size: fixed(size), ways: []way{w}})
				streams = append(streams, s)
			}
			l.allDone("injected", streams...)
			l.settle()
			st := a.mod.Stats()
			fast, packed := st.Get(btl.CntSendsFast), st.Get(btl.CntSendsPacked)
			if w == wayImmediate && fast+packed != 900 || fast == 0 {
				t.Errorf("of 900 sends %d left at once, %d in packs", fast, packed)
			}
		})
	}
	t.Run("done_is_final", func(t *testing.T) { testDoneIsFinal(t, fx) })
}

// testDoneIsFinal sends lone messages, which end in Send itself and call nobody.
func testDoneIsFinal(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	a, b := l.add(btl.Config{}), l.add(btl.Config{})
	got := 0
	b.handle(10, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		if !intact(data, uint64(got)) {
			t.Errorf("message %d was altered", got)
		}
		got++
	})
	ep := l.connect(a, b)
	l.run(20 * time.Millisecond) // over a reliable fabric the first credits come with the first ACK
	l.settle()
	mem := make([]byte, 200)
	for i := range 20 {
		pattern(mem, uint64(i))
		f, err := ep.Prepare(10, mem)
		if err != nil {
			t.Fatal(err)
		}
		f.OnDone = func(*btl.Fragment, error) { t.Errorf("OnDone after Done, message %d", i) }
		st, err := ep.Send(ep.Now(), f)
		if st != btl.Done || err != nil {
			t.Fatalf("message %d: status %d, %v", i, st, err)
		}
		clear(mem)
		l.until(fmt.Sprintf("message %d", i), func() bool { return got == i+1 })
		l.settle()
	}
}
