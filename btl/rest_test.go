package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// Passes rest while nothing is to be done, and no longer: until something arrives, the owner calls,
// or a timer runs out. The checks of every other test say so, too: see checkRest.
func TestRest(t *testing.T) {
	for _, c := range []struct {
		name string
		wake func(l *lab, ep, peer *Endpoint)
	}{
		{"a packet", func(l *lab, _, peer *Endpoint) { send(l.tb, peer, 10) }},
		{"send", func(l *lab, ep, _ *Endpoint) { send(l.tb, ep, 5000) }},
		{"immediate", func(l *lab, ep, _ *Endpoint) {
			if err := ep.SendImmediate(l.now, 3, []byte("x")); err != nil {
				l.tb.Fatal(err)
			}
		}},
		{"flush", func(l *lab, ep, _ *Endpoint) { ep.Flush(l.now, func(error) {}) }},
		{"close", func(l *lab, ep, _ *Endpoint) { ep.Close(l.now) }},
		{"abort", func(_ *lab, ep, _ *Endpoint) { ep.Abort() }},
		{"drain", func(l *lab, ep, _ *Endpoint) { ep.mod().Drain(l.now, l.now.Add(time.Second)) }},
		{"a timer", func(l *lab, ep, _ *Endpoint) { l.now = ep.c.All.Rest.Until }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, mem.Config{}, 2, regressConfig())
			ep, peer := l.pair()
			for _, m := range l.mods {
				mustHandle(t, m, func() {})
			}
			l.settle(time.Second)
			m := l.mods[0]
			for range 3 { // the last of what was dirty
				l.step(time.Millisecond)
			}
			if restsUntil(m) <= m.Now() {
				t.Fatalf("at %d an idle module rests until %d", m.Now(), restsUntil(m))
			}
			c.wake(l, ep, peer)
			for range 2 {
				if _, err := l.mods[1].Progress(l.now); err != nil {
					t.Fatal(err)
				}
				if _, err := m.Progress(l.now); err != nil {
					t.Fatal(err)
				}
			}
			if restsUntil(m) > m.Now() && restsUntil(m) > m.Deadline() {
				t.Errorf("rests until %d, and the deadline is %d", restsUntil(m), m.Deadline())
			}
			if err := m.Check(); err != nil {
				t.Error(err)
			}
			l.settle(time.Second)
		})
	}
}
