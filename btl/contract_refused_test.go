package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// Rule 7: small messages do not wait behind a large one for which the peer has no memory, because
// others hold it that have died: neither its chunks nor their copies take from them what may be on
// its way.
func TestContract07SmallBesideRefused(t *testing.T) {
	cfg := smallConfig()
	cfg.PeerTimeout, cfg.KeepAlive = time.Second, -1
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 1<<16, 1<<17
	l := newLab(t, mem.Config{}, 4, cfg)
	small, large := 0, 0
	l.mods[3].Handle(1, func(*Endpoint, Tag, []byte) { large++ })
	l.mods[3].Handle(2, func(*Endpoint, Tag, []byte) { small++ })
	var eps []*Endpoint
	for i := range 3 {
		eps = append(eps, l.connect(i, 3))
	}
	l.settle(time.Second)
	all := l.mods
	for i, m := range all[:2] { // which die in the middle of a message
		sendOrFail(t, eps[i], 1, make([]byte, 1<<16))
		if _, err := m.Progress(l.now.Add(1)); err != nil {
			t.Fatal(err)
		}
	}
	l.mods = all[2:]
	for range 10 {
		l.step(10 * time.Microsecond)
	}
	for range 3 {
		sendOrFail(t, eps[2], 1, make([]byte, 1<<16))
	}
	const often = time.Millisecond
	sent, start := 0, l.now
	for l.now < start.Add(900*time.Millisecond) {
		err := eps[2].SendImmediate(l.now, 2, []byte("small"))
		if err == nil {
			sent++
		} else if !errors.Is(err, ErrAgain) {
			t.Fatal(err)
		}
		for range 10 {
			l.step(often / 10)
		}
	}
	if large > 0 {
		t.Fatal("there was memory for the third")
	}
	stats := all[2].Stats()
	if small < 890 {
		t.Errorf("%d of %d small messages came in 900 ms", small, sent)
	}
	if n := stats.Get(CntSentChunk); n > 40 {
		t.Errorf("%d chunks were sent, the first of which were refused", n)
	}
	if n := stats.Retransmits(); n < 10 || n > 80 || n != stats.Get(CntRetransmitNack) {
		t.Errorf("%d packets were sent again, %d of them to ask for memory", n,
			stats.Get(CntRetransmitNack))
	}
	l.until("delivered", time.Millisecond, 5*time.Second, func() bool { return large == 3 })
	if took := l.now.Sub(start); took > 1500*time.Millisecond {
		t.Errorf("the large ones came after %v", took)
	}
	l.mods = all
}
