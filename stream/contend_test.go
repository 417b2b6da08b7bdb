//go:build unix

package stream

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric/sim"
	"gobtl/frag"
)

const againTime = 20 * time.Millisecond // between two visits of a receiver at a Meeting

// contest is a sender to which a bad host names the module of an honest receiver.
type contest struct {
	*simStream
	bad frag.Name // of the honest module, with the data address of another one that does not answer
}

func newContest(t *testing.T, cfg Config) *contest {
	t.Helper()
	w := newSimWorld(t, 21, 2)
	w.teller()
	honest, dead := w.rx[0], w.rx[1]
	w.move(honest, honestHost)
	w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		return sim.Verdict{Drop: d.To.Node == dead.ctl.Index() || d.From.Node == dead.ctl.Index()}
	})
	c := &contest{simStream: w.receiver(honest, cfg, 77)}
	c.send(w.tx, cfg, 99)
	name, err := frag.ParseName(honest.m.Name())
	if err != nil {
		t.Fatal(err)
	}
	deadName, err := frag.ParseName(dead.m.Name())
	if err != nil {
		t.Fatal(err)
	}
	c.bad, c.bad.Data = name, deadName.Data
	return c
}

// lie has the sender get a line that a bad host has sent.
func (c *contest) lie(tx *Sender, from string) error {
	line := lineFrom(c.w.t, &c.bad, from)
	line.Key = 12345
	return tx.addReceiver(line)
}

// lineOf is the line of a receiver that comes from a host.
func lineOf(rx *Receiver, host string) Identity {
	id := rx.Identity()
	id.from = host
	return id
}

func (c *contest) run(d time.Duration) {
	c.w.tx.ctl.Kick()
	end := c.w.nw.Now().Add(d)
	c.w.until(time.Minute, func() bool { return c.w.nw.Now() >= end })
}

// A receiver that names its own host gets its stream at once, although another host has named the
// receiver's module with a wrong data address to all senders of the port just before.
func TestReceiverNamedByOtherHost(t *testing.T) {
	for senders := 1; senders <= 2; senders++ {
		cfg := Config{Messages: 100}
		c := newContest(t, cfg)
		streams := []*simStream{c.simStream}
		if senders == 2 {
			more := c.w.receiver(c.w.rx[0], cfg, 78)
			more.send(c.w.tx, cfg, 98)
			c.w.rx[0].after = func() { c.read(); more.read() }
			streams = append(streams, more)
		}
		for i, s := range streams {
			if err := c.lie(s.tx, fmt.Sprintf("198.51.100.%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		c.run(100 * time.Millisecond)
		for _, s := range streams {
			if err := s.tx.addReceiver(lineOf(s.rx, honestHost)); err != nil {
				t.Fatalf("%d senders: the honest receiver: %v", senders, err)
			}
		}
		c.w.tx.ctl.Kick()
		for _, s := range streams {
			s.whole(500*time.Millisecond, 100)
			if n := s.tx.stats.Refused.Taken; n != 1 {
				t.Errorf("%d senders: %d lines displaced", senders, n)
			}
		}
	}
}

// A line of another host that names the module of a receiver whose handshake with another sender of
// the port goes on disturbs neither this handshake nor the receiver's next stream.
func TestReceiverNamedDuringHandshake(t *testing.T) {
	cfg := Config{Messages: 100}
	c := newContest(t, cfg)
	other := c.w.receiver(c.w.rx[0], cfg, 78)
	other.send(c.w.tx, cfg, 98, lineOf(other.rx, honestHost))
	c.w.rx[0].after = func() { c.read(); other.read() }
	if err := c.lie(c.tx, liarsHost); err != nil {
		t.Fatal(err)
	}
	if err := c.tx.addReceiver(lineOf(c.rx, honestHost)); err != nil {
		t.Fatal(err)
	}
	ep := other.tx.links[0].ep
	if packets, waiting := ep.Outstanding(); ep.Err() != nil || packets+waiting != 0 {
		t.Errorf("after the line was displaced: %v, %d control messages wait", ep.Err(), waiting)
	}
	c.w.tx.ctl.Kick()
	for _, s := range []*simStream{c.simStream, other} {
		s.whole(500*time.Millisecond, 100)
	}
}

// Two receivers of one module get the streams of two senders of one port, although the line of the
// first receiver came from another network of its host.
func TestReceiversFromTwoNetworks(t *testing.T) {
	cfg := Config{Messages: 100}
	c := newContest(t, cfg)
	c.w.far(c.w.tx, c.w.rx[0])
	other := c.w.receiver(c.w.rx[0], cfg, 78)
	other.send(c.w.tx, cfg, 98)
	c.w.rx[0].after = func() { c.read(); other.read() }
	if err := c.tx.addReceiver(lineOf(c.rx, "192.0.2.2")); err != nil {
		t.Fatal(err)
	}
	c.run(againTime)
	if err := other.tx.addReceiver(lineOf(other.rx, honestHost)); err != nil {
		t.Fatal(err)
	}
	c.w.tx.ctl.Kick()
	for _, s := range []*simStream{c.simStream, other} {
		s.whole(5*time.Second, 100)
	}
}

// A receiver whose whole line another host has sent first gets its stream over a slow path.
func TestReceiverWhoseLineOtherHostSent(t *testing.T) {
	for _, state := range []linkState{linkConnecting, linkGreeted} {
		cfg := Config{Mode: Unreliable, Messages: 100, Grace: 2 * otherHostTime}
		c := newContest(t, cfg)
		honest := c.w.rx[0]
		// The handshake and the probes of the data address take longer than those of another host may.
		slow := sim.Path{Delay: otherHostTime * 2 / 3}
		if state == linkGreeted {
			slow.Delay = otherHostTime / 4 // such a handshake is complete in time
		}
		c.w.nw.SetPath(c.w.tx.ctl, honest.ctl, slow)
		c.w.nw.SetPath(honest.ctl, c.w.tx.ctl, slow)
		c.w.nw.SetPath(c.w.tx.data, honest.data, sim.Path{Delay: otherHostTime * 9 / 10})
		if err := c.tx.addReceiver(lineOf(c.rx, liarsHost)); err != nil {
			t.Fatal(err)
		}
		c.w.tx.ctl.Kick()
		c.w.until(time.Minute, func() bool { return c.tx.links[0].state == state })
		if err := c.tx.addReceiver(lineOf(c.rx, honestHost)); err != nil {
			t.Fatalf("from its own host: %v", err)
		}
		c.w.tx.ctl.Kick()
		c.whole(30*time.Second, 100)
	}
}

// A receiver that comes again does not raise the number of probes to a data address that is not of
// its host.
func TestComesAgainDuringProbes(t *testing.T) {
	cfg := Config{Mode: Unreliable, Messages: 100}
	c := newContest(t, cfg)
	c.w.move(c.w.rx[0], honestHost)
	c.w.hosts[c.w.rx[0].data.Index()] = "192.0.2.2"
	probes := 0
	c.w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		drop := d.To.Node == c.w.rx[0].data.Index()
		if drop {
			probes++
		}
		return sim.Verdict{Drop: drop}
	})
	if err := c.tx.addReceiver(lineOf(c.rx, honestHost)); err != nil {
		t.Fatal(err)
	}
	c.w.tx.ctl.Kick()
	k := c.tx.links[0]
	c.w.until(time.Minute, func() bool { return k.state == linkProving })
	for k.state == linkProving {
		if err := c.tx.addReceiver(lineOf(c.rx, honestHost)); err != nil {
			t.Fatal(err)
		}
		c.run(againTime)
	}
	if probes != otherHostProbesMax {
		t.Errorf("%d probes, want %d", probes, otherHostProbesMax)
	}
}

// A receiver that names another of its addresses is only told to try again while a line of another
// host is there, and gets its stream although that host repeats its line all the time.
func TestReceiverOfTwoNetworksNamedByOtherHost(t *testing.T) {
	c := newContest(t, Config{Messages: 100})
	later := 0
	end := c.w.nw.Now().Add(10 * time.Second)
	for c.w.nw.Now() < end && !c.rx.Met() {
		_ = c.lie(c.tx, liarsHost)
		c.run(againTime / 2)
		switch err := c.tx.addReceiver(lineOf(c.rx, "192.0.2.2")); {
		case errors.Is(err, ErrTaken):
			later++
		case err != nil:
			t.Fatal(err)
		}
		c.run(againTime / 2)
	}
	if later == 0 {
		t.Error("no line of the bad host was in the way")
	}
	c.whole(time.Second, 100)
}

// A receiver whose module another host has named with a wrong key is only told to try again, and
// gets its stream.
func TestReceiverNamedWithWrongKey(t *testing.T) {
	for _, host := range []string{honestHost, "192.0.2.2"} {
		c := newContest(t, Config{Messages: 100})
		c.w.far(c.w.tx, c.w.rx[0])
		line := lineOf(c.rx, liarsHost)
		line.Key++
		if err := c.tx.addReceiver(line); err != nil {
			t.Fatal(err)
		}
		c.w.tx.ctl.Kick()
		c.w.until(time.Minute, func() bool { return c.tx.links[0].state == linkGreeted })
		later := 0
		for !c.rx.Met() {
			switch err := c.tx.addReceiver(lineOf(c.rx, host)); {
			case errors.Is(err, ErrTaken):
				later++
			case err != nil:
				t.Fatal(err)
			}
			c.run(againTime)
		}
		if later == 0 || later > int(time.Second/againTime) {
			t.Errorf("from %s: told to try again %d times", host, later)
		}
		c.whole(5*time.Second, 100)
	}
}

// A host that names the module of another host with a wrong key does not end the connection to the
// module, over which the module can begin a stream to the sender's port at the same time.
func TestConnectionOfNamedModule(t *testing.T) {
	c := newContest(t, Config{Messages: 100})
	line := lineOf(c.rx, liarsHost)
	line.Key++
	if err := c.tx.addReceiver(line); err != nil {
		t.Fatal(err)
	}
	k := c.tx.links[0]
	c.w.tx.ctl.Kick()
	c.w.until(time.Minute, func() bool { return k.state == linkDone })
	c.run(2 * time.Second)
	ep, err := c.w.tx.m.Connect(c.w.nw.Now(), c.rx.Identity().Name)
	if ep != k.ep {
		t.Errorf("the connection has ended: %v, %v", k.ep.Err(), err)
	}
	if n := len(c.w.tx.places.of); n != 1 {
		t.Errorf("%d places are counted", n)
	}
}

// A receiver that comes again, because it has not got the answer, is welcome in each state of its
// stream, and gets the stream once.
func TestReceiverComesAgain(t *testing.T) {
	for _, mode := range []Mode{Reliable, Unreliable} {
		for _, host := range []string{honestHost, "192.0.2.2"} {
			c := newContest(t, Config{Mode: mode, Messages: 1000, BitsPerSecond: 64 * 8 * 5000})
			states := map[linkState]bool{}
			ending := false
			line := lineOf(c.rx, host)
			for added := false; c.tx.state != stateDone; added = true {
				if added {
					states[c.tx.links[0].state] = true
					ending = ending || c.tx.state == stateEnding
				}
				if err := c.tx.addReceiver(line); err != nil {
					t.Fatalf("%v, from %s, sender in state %d: %v", mode, host, c.tx.state, err)
				}
				if len(c.tx.links) != 1 {
					t.Fatalf("%d links", len(c.tx.links))
				}
				c.w.tx.ctl.Kick()
				c.w.nw.Step()
			}
			if !states[linkConnecting] || !states[linkGreeted] || !states[linkReady] || !ending {
				t.Errorf("%v: it came in the states %v, ending %v", mode, states, ending)
			}
			c.whole(time.Second, 1000)
		}
	}
}
