//go:build unix

package stream

import (
	"slices"
	"testing"
	"time"
)

// Receivers of one host that accept a stream and ignore its start do not keep the start from a
// receiver of another host.
func TestStartsOfOneHost(t *testing.T) {
	const liars = 70
	w := newSimWorld(t, 65, 1)
	w.teller()
	w.move(w.rx[0], honestHost)
	cfg := Config{Messages: 100}
	s := w.receiver(w.rx[0], cfg, 77)
	s.send(w.tx, cfg, 99)
	for i := range liars {
		if err := s.line(w.liar(t, i, "4"), liarsHost, 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.line(s.rx.Identity(), honestHost, 0); err != nil {
		t.Fatal(err)
	}
	s.whole(2*startTime, 100)
	if n := s.tx.stats.Refused.Taken; n < 3 {
		t.Errorf("%d starts were ignored", n)
	}
}

// The hosts take turns, and a start gives the turn to the other hosts. Receivers of equal rank keep
// the order of their arrival.
func TestStartTurns(t *testing.T) {
	w := newSimWorld(t, 66, 0)
	w.teller()
	s := new(Sender)
	for i, host := range []string{liarsHost, liarsHost, liarsHost, honestHost, "192.0.2.2"} {
		peer := w.rogue(t, text(uint64(i)))
		w.hosts[peer.node.Index()] = host
		ep, err := w.tx.m.Connect(w.nw.Now(), peer.m.Name())
		if err != nil {
			t.Fatal(err)
		}
		s.links = append(s.links, &link{ep: ep, number: uint32(i), state: linkWelcomed})
	}
	s.links = append(s.links, &link{ep: s.links[0].ep, state: linkStarted})
	liars := s.links[0].ep.PeerHost()
	for step, want := range [][]uint32{{0, 3, 4, 1, 2}, {3, 4, 0, 1, 2}, {3, 4, 0, 1, 2}} {
		var got []uint32
		for _, k := range s.inTurn() {
			got = append(got, k.number)
		}
		if !slices.Equal(got, want) {
			t.Errorf("step %d: order %v, want %v", step, got, want)
		}
		s.countStart(liars)
	}
	for i := range 2 * startHostsMax {
		if s.countStart(text(uint64(i))); len(s.starts) > startHostsMax {
			t.Fatalf("%d hosts are remembered", len(s.starts))
		}
	}
}
