package stream

import (
	"context"
	"errors"
	"testing"
	"time"

	"gobtl/fabric/sim"
	"gobtl/frag"
)

// Lines at a meeting that name a third host make the sender send a few packets to it, however many
// the lines are. A receiver that names its own host is met at once beside them.
func TestHearsay(t *testing.T) {
	w := newSimWorld(t, 21, 2)
	victim, honest := w.rx[0], w.rx[1]
	aimed := 0
	w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		if d.From.Node == w.tx.ctl.Index() && d.To.Node == victim.ctl.Index() {
			aimed++
			return sim.Verdict{Drop: true} // the victim is no module
		}
		return sim.Verdict{}
	})
	g := Geometry{64, 4, 8}
	ring, _ := NewRing(g, nil)
	refused := 0
	tx, err := w.tx.newSender(ring, Config{
		Messages: 32, Meet: time.Minute, Unmonitored: true,
		Refused: func(r Refusal) {
			if r.Reason == RefusedTaken && r.Peer != "" {
				refused++
			}
		},
	}, 99)
	if err != nil {
		t.Fatal(err)
	}
	name, err := frag.ParseName(victim.m.Name())
	if err != nil {
		t.Fatal(err)
	}
	const lines, seconds = 1000, 10
	begun := 0
	for i := range lines {
		name.Incarnation++
		text, err := name.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		id := Identity{Role: RoleReceiver, Key: uint64(i) + 1, Name: text, from: "192.0.2.1"}
		switch err := tx.addReceiver(id); {
		case err == nil:
			begun++
		case !errors.Is(err, ErrTaken):
			t.Fatal(err)
		}
		end := w.nw.Now().Add(seconds * time.Second / lines)
		w.tx.ctl.Kick()
		w.until(time.Minute, func() bool { return w.nw.Now() >= end })
	}
	const most = hearsayBurst + seconds*int(time.Second/hearsayEvery)
	const hellos = 2 * 6 // through both channels
	if begun < most/2 || begun > most || aimed > most*hellos || aimed < begun {
		t.Errorf("%d handshakes, %d packets to the victim; want at most %d, %d", begun, aimed, most,
			most*hellos)
	}
	if tx.stats.Refused.Taken != uint64(refused) || refused != lines-begun {
		t.Errorf("%d lines, %d handshakes, %d refused, %d counted", lines, begun, refused,
			tx.stats.Refused.Taken)
	}
	rxRing, _ := NewRing(g, nil)
	rx, err := honest.newReceiver(rxRing, Config{Messages: 32, Unmonitored: true}, 78)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.addReceiver(rx.Identity()); err != nil { // a person has chosen it
		t.Fatal(err)
	}
	w.tx.ctl.Kick()
	w.until(time.Minute, func() bool { return tx.state == stateDone && rx.state == stateDone })
	if tx.err != nil || rx.err != nil {
		t.Errorf("the honest: %v, %v", tx.err, rx.err)
	}
}

// An identity that comes to a meeting says from which host it came.
func TestMeetingSaysFrom(t *testing.T) {
	m, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	visited := make(chan error, 1)
	for _, serve := range []bool{false, true} {
		go func() {
			theirs := Identity{Role: RoleReceiver, Key: 1, Name: []byte("r")}
			_, err := ExchangeAt(m.Addr().String())(ctx, theirs)
			visited <- err
		}()
		mine := Identity{Role: RoleSender, Key: 2, Name: []byte("s")}
		var id Identity
		if serve {
			served, stop := context.WithCancel(ctx)
			_ = m.Serve(served, RoleSender, func(came Identity) (Identity, error) {
				id = came
				stop()
				return mine, nil
			}) // ends because served is cancelled
		} else if id, err = m.Exchange(ctx, mine); err != nil {
			t.Fatal(err)
		}
		if err := <-visited; err != nil || id.from != "127.0.0.1" {
			t.Errorf("serve %v: an identity from %q, %v", serve, id.from, err)
		}
	}
}

// The address of a line counts as that of its own host in any notation.
func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"fe80::1%eth0", "fe80::1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"", "", false},
		{"x", "x", false},
	} {
		if got := sameHost(c.a, c.b); got != c.same {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}
