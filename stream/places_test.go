//go:build unix

package stream

import (
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
)

// crampedPlaces is the number of places of the module of a sender's host in these tests. The peers
// of one host may open a quarter of them.
const crampedPlaces = 24

// cramped makes a host with few places the world's sender.
func (w *simWorld) cramped() {
	w.hosts = map[int]string{}
	w.tx = w.hostOf("cramped", btl.Config{PeersMax: crampedPlaces, PeersPerHost: crampedPlaces / 4})
}

// crampedStream makes a world with a cramped sender, and a stream of 100 messages to a receiver at
// honestHost, whose line the sender has not got yet.
func crampedStream(t *testing.T, seed uint64) (*simWorld, *simStream) {
	w := newSimWorld(t, seed, 1)
	w.cramped()
	w.move(w.rx[0], honestHost)
	cfg := Config{Messages: 100}
	s := w.receiver(w.rx[0], cfg, 77)
	s.send(w.tx, cfg, 99)
	return w, s
}

// liar is a receiver at liarsHost that answers a hello by a welcome with a ring of the given number
// of messages, and then says nothing more. The result of liar is its line at a Meeting.
func (w *simWorld) liar(t *testing.T, i int, ringMessages string) Identity {
	bad := w.rogue(t, "bad"+text(uint64(i)))
	w.hosts[bad.node.Index()] = liarsHost
	bad.answer = func(ep *btl.Endpoint, l obj) {
		if l["kind"] == letterHello {
			bad.say(ep, obj{"kind": letterWelcome, "key": l["key"], "welcome": obj{
				"grace_ns": "1000000", "ring_messages": ringMessages,
			}})
		}
	}
	return Identity{Role: RoleReceiver, Key: uint64(1000 + i), Name: bad.m.Name(), from: liarsHost}
}

// line has the sender get a line from a host, and lets some time pass.
func (s *simStream) line(id Identity, from string, pass time.Duration) error {
	id.from = from
	err := s.tx.addReceiver(id)
	s.w.tx.ctl.Kick()
	s.w.nw.RunUntil(s.w.nw.Now().Add(pass))
	return err
}

// Receivers that the sender has refused after the handshake give their places to later lines of
// their network.
func TestPlacesOfRefused(t *testing.T) {
	const lines = 2 * crampedPlaces
	w, s := crampedStream(t, 61)
	for i := range lines {
		id, tries := w.liar(t, i, "0"), 0
		err := s.line(id, liarsHost, 50*time.Millisecond)
		for ; isTaken(err) && tries < 10; tries++ {
			err = s.line(id, liarsHost, 50*time.Millisecond)
		}
		if err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
	}
	if n := s.tx.stats.Refused.Wish; n != lines || len(w.tx.places.of) > crampedPlaces/4 {
		t.Errorf("%d of %d are refused, %d places are taken", n, lines, len(w.tx.places.of))
	}
	if err := s.line(s.rx.Identity(), honestHost, 0); err != nil {
		t.Fatal(err)
	}
	s.whole(time.Second, 100)
}

// Receivers of several networks that the sender has refused give their places to later lines of all
// networks, when the module is full.
func TestPlacesOfManyRefused(t *testing.T) {
	w, s := crampedStream(t, 66)
	for i := range crampedPlaces {
		host := fmt.Sprintf("198.51.100.%d", 1+i/(crampedPlaces/4))
		id := w.liar(t, i, "0")
		w.hosts[w.nw.Node("bad"+text(uint64(i))).Index()] = host
		if err := s.line(id, host, 50*time.Millisecond); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
	}
	if n := len(w.tx.places.of); n != crampedPlaces {
		t.Fatalf("%d places are taken", n)
	}
	err := s.line(s.rx.Identity(), honestHost, 50*time.Millisecond)
	for tries := 0; isTaken(err) && tries < 10; tries++ {
		err = s.line(s.rx.Identity(), honestHost, 50*time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.whole(time.Second, 100)
}

// A line whose endpoint is open already needs no further place. An endpoint for which control
// messages wait is not closed for a line that needs one.
func TestPlacesOfOpen(t *testing.T) {
	w := newSimWorld(t, 65, 1)
	w.cramped()
	s := w.receiver(w.rx[0], Config{}, 77)
	s.send(w.tx, Config{Messages: 1}, 99)
	e := w.tx.Engine
	var ids [crampedPlaces/4 + 1]Identity
	for i := range ids {
		ids[i] = w.liar(t, i, "0")
		if err := s.line(ids[i], liarsHost, 50*time.Millisecond); (err != nil) != (i == len(ids)-1) {
			t.Fatalf("line %d: %v", i, err)
		}
		if i == 0 {
			for ep := range e.places.of {
				e.outboxes[ep] = &outbox{}
			}
		}
	}
	if len(e.places.of) != 1 {
		t.Errorf("%d endpoints are left", len(e.places.of))
	}
	e.places.taken[networkOf(liarsHost)] = crampedPlaces
	if _, err := e.allowLine(ids[0]); err != nil {
		t.Error(err)
	}
	if _, err := e.allowLine(ids[1]); !isTaken(err) {
		t.Error(err)
	}
	for ep := range e.places.of {
		delete(e.outboxes, ep)
	}
}

// Lines of a host whose places are taken make the sender search for unused endpoints at most once
// in searchEvery.
func TestLinesOfFullHost(t *testing.T) {
	const most = crampedPlaces / 4
	w, s := crampedStream(t, 68)
	e := w.tx.Engine
	for i := range most {
		if err := s.line(w.liar(t, i, "0"), liarsHost, 50*time.Millisecond); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
	}
	for ep := range e.places.of {
		e.outboxes[ep] = &outbox{} // it is not closed
	}
	further := w.liar(t, most, "0")
	for _, c := range []struct {
		wait time.Duration
		open int // endpoints that are not closed after the line
	}{{0, most}, {searchEvery - 1, most}, {1, 0}} {
		e.now = e.now.Add(c.wait)
		if _, err := e.allowLine(further); !isTaken(err) {
			t.Fatal(err)
		}
		clear(e.outboxes)
		open := 0
		for _, by := range e.places.of {
			if by.name != "" {
				open++
			}
		}
		if open != c.open {
			t.Errorf("%v later: %d endpoints, want %d", c.wait, open, c.open)
		}
	}
}

// The lines of one host that wait for the start of a stream leave places to the lines of other
// hosts.
func TestPlacesOfWaiting(t *testing.T) {
	w, s := crampedStream(t, 62)
	refused := 0
	for i := range 2 * crampedPlaces {
		switch err := s.line(w.liar(t, i, "4"), liarsHost, 10*time.Millisecond); {
		case isTaken(err):
			refused++
		case err != nil:
			t.Fatalf("line %d: %v", i, err)
		}
	}
	if n := len(w.tx.places.of); n != crampedPlaces/4 || refused == 0 {
		t.Errorf("%d places are taken, %d lines are told to try again", n, refused)
	}
	if err := s.line(s.rx.Identity(), honestHost, 0); err != nil {
		t.Fatal(err)
	}
	s.whole(20*time.Second, 100)
	w.nw.RunUntil(w.nw.Now().Add(10 * time.Second))
	if n := len(w.tx.places.of); n > crampedPlaces/4+1 { // one of the honest host
		t.Errorf("after the stream: %d endpoints", n)
	}
}

// A receiver that the sender refuses because another one was first gets the next stream.
func TestRefusedComesAgain(t *testing.T) {
	w := newSimWorld(t, 63, 2)
	w.cramped()
	w.move(w.rx[0], honestHost)
	w.move(w.rx[1], "192.0.2.2")
	cfg := Config{Messages: 2000, BitsPerSecond: 64 * 8 * 5000}
	first, second := w.receiver(w.rx[0], cfg, 77), w.receiver(w.rx[1], cfg, 78)
	first.send(w.tx, cfg, 99)
	if err := first.line(first.rx.Identity(), honestHost, 0); err != nil {
		t.Fatal(err)
	}
	if err := first.line(second.rx.Identity(), "192.0.2.2", 0); err != nil {
		t.Fatal(err)
	}
	w.until(time.Second, func() bool { return second.rx.stats.Refused.There > 0 })
	second.send(w.tx, cfg, 100)
	if err := second.line(second.rx.Identity(), "192.0.2.2", 0); err != nil {
		t.Fatal(err)
	}
	second.whole(2*time.Second, 2000)
	first.whole(time.Second, 2000)
}

// A receiver that the sender refuses does not end another stream to the same port.
func TestRefusedBesideOther(t *testing.T) {
	w := newSimWorld(t, 64, 1)
	w.cramped()
	w.move(w.rx[0], honestHost)
	cfg := Config{Messages: 2000, BitsPerSecond: 64 * 8 * 5000}
	s := w.receiver(w.rx[0], cfg, 77)
	s.send(w.tx, cfg, 99)
	if err := s.line(s.rx.Identity(), honestHost, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	other := w.receiver(w.rx[0], Config{Messages: 1000}, 78)
	w.rx[0].after = s.read
	other.send(w.tx, cfg, 100)
	if err := other.line(other.rx.Identity(), honestHost, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if other.tx.stats.Refused.There != 1 {
		t.Errorf("%+v", other.tx.stats.Refused)
	}
	s.whole(time.Second, 2000)
}
