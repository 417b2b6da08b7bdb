//go:build unix

package stream

import (
	"testing"
	"time"

	"gobtl/btl"
)

// TestRelayedProof: a receiver that names the address of another receiver, whose candidate it is
// itself, and hands on the proof that it gets there, has nobody flooded.
func TestRelayedProof(t *testing.T) {
	w := newSimWorld(t, 51, 1)
	cfg := Config{Mode: Unreliable, Messages: 1 << 30, BitsPerSecond: 64 * 8 * 5000}
	victim := w.receiver(w.rx[0], Config{Mode: Unreliable, Meet: time.Minute}, 77)
	bad := w.rogue(t, "bad")
	bad.connect(victim.rx.Identity().Name)
	bad.say(bad.ep, bad.hello(77, obj{"mode": "unreliable", "messages": "0"}))
	w.until(time.Minute, func() bool { _, ok := bad.got(letterWelcome); return ok })
	l, _ := bad.got(letterWelcome)
	welcome := l["welcome"].(obj)
	welcome["grace_ns"] = "0"
	s := &simStream{w: w}
	toSender := bad.ep
	bad.answer = func(ep *btl.Endpoint, l map[string]any) {
		switch l["kind"] {
		case letterHello:
			toSender = ep
			bad.say(ep, obj{"kind": letterWelcome, "key": "99", "welcome": welcome})
		case letterProof:
			bad.say(toSender, obj{"kind": letterProof, "key": "99", "proof": l["proof"]})
		case letterStart:
			bad.say(ep, obj{"kind": letterReady, "key": "99", "ready": obj{"blocks": []uint64{1}}})
		}
	}
	s.send(w.tx, cfg, 99, Identity{Role: RoleReceiver, Key: 78, Name: bad.m.Name()})
	end := w.nw.Now().Add(8 * time.Second)
	w.until(time.Minute, func() bool { return w.nw.Now() > end })
	if n := w.aimed[w.rx[0].data.Index()]; n > probesMax {
		t.Errorf("%d datagrams to the victim", n)
	}
}
