package stream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// lineFrom is a receiver's line that came to a meeting from a host.
func lineFrom(t testing.TB, name *frag.Name, from string) Identity {
	t.Helper()
	text, err := name.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return Identity{Role: RoleReceiver, Key: name.Incarnation, Name: text, from: from}
}

// Lines at a meeting that name a third host make the sender send a few packets to it, however many
// the lines are. A receiver that names its own host is met at once beside them.
func TestOtherHosts(t *testing.T) {
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
	const strangers = 2 * otherHostBurst // enough hosts for all handshakes that the rate allows
	begun := 0
	for i := range lines {
		name.Incarnation++
		id := lineFrom(t, &name, fmt.Sprintf("192.0.2.%d", 1+i%strangers))
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
	const most = otherHostBurst + seconds*int(time.Second/otherHostEvery)
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

// A line names another host unless both of its addresses are of the host that sent it, or a process
// of the sender's own host sent it.
func TestOtherHostOfEitherAddress(t *testing.T) {
	for _, c := range []struct {
		from, command, data string
		otherHost           bool
	}{
		{"10.0.0.1", "10.0.0.1:4", "10.0.0.1:5", false},
		{"::ffff:10.0.0.1", "10.0.0.1:4", "10.0.0.1:5", false},
		{"10.0.0.1", "10.0.0.1:4", "10.0.0.2:5", true},
		{"10.0.0.1", "10.0.0.2:4", "10.0.0.1:5", true},
		{"10.0.0.1", "10.0.0.2:4", "10.0.0.2:5", true},
		{"10.0.0.1", "127.0.0.1:4", "127.0.0.1:5", true},
		{"10.0.0.1", "0a0b", "0a0c", true},
		{"10.0.0.1", "10.0.0.1:4", "0a0c", true},
		{"x", "x:4", "x:5", true},
		{"127.0.0.1", "10.0.0.1:4", "10.0.0.2:5", false},
		{"127.9.9.9", "10.0.0.1:4", "10.0.0.1:5", false},
		{"::ffff:127.0.0.1", "10.0.0.1:4", "10.0.0.1:5", false},
		{"::1", "10.0.0.1:4", "0a0c", false},
		{"2001:db8::1", "[2001:db8::1]:4", "[2001:db8::1]:5", false},
		{"2001:db8::1", "[2001:db8::1]:4", "[2001:db8::2]:5", true},
		{"fe80::1%eth0", "[fe80::1]:4", "[fe80::1]:5", false},
	} {
		if got := namesOtherHost(c.from, c.command, c.data); got != c.otherHost {
			t.Errorf("from %s, command %s, data %s: %v", c.from, c.command, c.data, got)
		}
	}
}

// An Engine finds both addresses in the name of a line.
func TestOtherHostOfName(t *testing.T) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil || len(infos) == 0 {
		t.Fatalf("no loopback: %v", err)
	}
	m, err := openModule(infos[0], PortConfig{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	name, err := frag.ParseName(m.Name())
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(host byte) []byte { return []byte{4, 0, 9, 10, 0, 0, host} } // 10.0.0.host:9
	for _, c := range []struct {
		command, data byte
		otherHost     bool
	}{{1, 1, false}, {1, 2, true}, {2, 1, true}, {2, 2, true}} {
		name.Command, name.Data = encoded(c.command), encoded(c.data)
		e.otherHosts = otherHosts{}
		got, err := e.allowOtherHost(lineFrom(t, &name, "10.0.0.1"))
		if err != nil || got != c.otherHost || e.otherHosts.spent > 0 != c.otherHost {
			t.Errorf("command at 10.0.0.%d, data at 10.0.0.%d: %v, %d spent, %v", c.command, c.data, got,
				e.otherHosts.spent, err)
		}
	}
}

// Hosts that send many lines leave handshakes to a host that sends few.
func TestOtherHostsLeaveSome(t *testing.T) {
	for _, c := range []struct {
		about     string
		strangers int
		from      string // of a stranger, by its number
	}{
		{"one stranger", 1, "192.0.2.%d"},
		{"three strangers", 3, "198.51.100.%d"},
		{"many addresses of one network", 1000, "2001:db8::%x"},
	} {
		const lines, seconds = 1000, 10
		var h otherHosts
		strange, honest := 0, 0
		for i := range lines {
			now := mono.Time(i) * mono.Time(seconds*time.Second/lines)
			if h.take(networkOf(fmt.Sprintf(c.from, 1+i%c.strangers)), now) {
				strange++
			}
			if i%(lines/seconds) == 0 && h.take(networkOf("192.0.2.2"), now) {
				honest++
			}
		}
		if honest < seconds/2 || strange < seconds/2 {
			t.Errorf("%s: %d handshakes, and %d of %d lines of the honest host", c.about, strange, honest,
				seconds)
		}
	}
	same := netip.MustParsePrefix("192.0.2.1/32")
	if networkOf("::ffff:192.0.2.1") != same || networkOf("192.0.2.1") != same {
		t.Error("a host in two notations counts as two")
	}
}
