package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/fabric/sim"
)

// Rule 7: a peer that stands still never has the last descriptors: another one is served, whatever
// the first one holds.
func TestContract07Descriptors(t *testing.T) {
	cfg := smallConfig()
	cfg.PeersMax, cfg.FragmentsMax = 8, 32
	l := newLab(t, mem.Config{}, 4, cfg)
	var eps []*Endpoint
	for i := range 3 {
		l.mods[i+1].Handle(1, func(*Endpoint, Tag, []byte) {})
		eps = append(eps, l.connect(0, i+1))
	}
	l.settle(time.Second)
	l.cut()
	for i, ep := range eps {
		n := 0
		for ; n < 100; n++ {
			f, err := ep.Prepare(1, make([]byte, 3000))
			if errors.Is(err, ErrAgain) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ep.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
		}
		if want := []int{14, 7, 4}[i]; n != want {
			t.Errorf("endpoint %d holds %d descriptors of 32, want %d", i, n, want)
		}
	}
	l.calm()
	l.settle(time.Minute)
	l.wantIdle(0)
}

// What was flushed without a function while the owner pulled is forgotten when it has its functions
// called.
func TestFlushNilThenCallbacks(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	a, _ := l.pair()
	m := l.mods[0]
	m.PullCompletions(true)
	sendOrFail(t, a, 1, make([]byte, 3000))
	a.Flush(l.now, nil)
	l.settle(time.Second)
	m.PullCompletions(false)
	l.settle(time.Second)
	l.wantIdle(0)
	a.Abort()
	a.Flush(l.now, nil)
}

// Rule 3: a message of which Send said Done, and that the peer has refused, is told by the next
// Flush, and by no other one; and it is counted.
func TestContract03FlushTellsRefusals(t *testing.T) {
	for _, packBytes := range []int{1, 0} {
		cfg := smallConfig()
		cfg.PackBytes = packBytes
		l := newLab(t, mem.Config{}, 2, cfg)
		l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
		a, _ := l.pair()
		l.settle(time.Second)
		var told []error
		flush := func() { a.Flush(l.now, func(err error) { told = append(told, err) }) }
		testFlushRefusals(t, a, flush, func() { l.settle(time.Second) })
		wantRefusals(t, a, told)
		l.wantIdle(0)
	}
}

// The same over a fabric that is reliable by itself.
func TestContract03FlushTellsRefusalsReliable(t *testing.T) {
	for _, packBytes := range []int{1, 0} {
		cfg := relyConfig()
		cfg.PackBytes = packBytes
		r := newRelied(t, sim.Config{}, cfg, cfg)
		r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
		a := r.connect(0, 1)
		var told []error
		flush := func() { a.Flush(a.Now(), func(err error) { told = append(told, err) }) }
		testFlushRefusals(t, a, flush, func() { r.run(100 * time.Millisecond) })
		wantRefusals(t, a, told)
	}
}

// testFlushRefusals sends to tag 1, which has a handler, and to tag 2, which has none.
func testFlushRefusals(t *testing.T, a *Endpoint, flush, run func()) {
	t.Helper()
	for _, tags := range [][]Tag{{1}, {2, 1}, {1, 1}, {1, 2, 2, 1}, {1}} {
		for _, tag := range tags {
			if err := a.SendImmediate(a.Now(), tag, []byte("hello")); err != nil {
				t.Fatal(err)
			}
		}
		flush()
		run()
	}
}

func wantRefusals(t *testing.T, a *Endpoint, told []error) {
	t.Helper()
	want := []error{nil, ErrNoHandler, nil, ErrNoHandler, nil}
	if len(told) != len(want) {
		t.Fatalf("%d flushes ended: %v", len(told), told)
	}
	for i := range want {
		if !errors.Is(told[i], want[i]) {
			t.Errorf("flush %d: %v, want %v", i, told[i], want[i])
		}
	}
	if n, err := a.Refused(); n < 2 || n > 3 || !errors.Is(err, ErrNoHandler) {
		t.Errorf("%d messages refused, %v", n, err)
	}
}
