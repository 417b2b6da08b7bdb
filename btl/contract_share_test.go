package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
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
		if want := []int{16, 8, 4}[i]; n != want {
			t.Errorf("endpoint %d holds %d descriptors of 32, want %d", i, n, want)
		}
	}
	l.calm()
	l.settle(time.Minute)
	l.wantIdle(0)
	for i, ep := range eps {
		if ep.descriptors != 0 {
			t.Errorf("endpoint %d holds %d descriptors in the end", i, ep.descriptors)
		}
	}
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
