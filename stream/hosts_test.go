//go:build unix

package stream

import (
	"strconv"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
)

const liarsHost, honestHost = "192.0.2.66", "192.0.2.1"

// teller makes a host that tells hosts apart the world's sender.
func (w *simWorld) teller() {
	w.hosts = map[int]string{}
	w.tx = w.host("teller")
}

// move gives a host of the world an IP address.
func (w *simWorld) move(h *simHost, address string) {
	w.hosts[h.ctl.Index()], w.hosts[h.data.Index()] = address, address
}

// Many receivers of one host that are not proven do not displace the receiver of another host that
// is far away.
func TestPendingOfOneHost(t *testing.T) {
	const liars = 2 * pendingMax
	w := newSimWorld(t, 41, 1)
	w.teller()
	w.move(w.rx[0], honestHost)
	far := sim.Path{Delay: 150 * time.Millisecond}
	for _, a := range []*sim.Node{w.tx.ctl, w.tx.data} {
		for _, b := range []*sim.Node{w.rx[0].ctl, w.rx[0].data} {
			w.nw.SetPath(a, b, far)
			w.nw.SetPath(b, a, far)
		}
	}
	cfg := Config{Mode: Unreliable, Messages: 100}
	s := w.receiver(w.rx[0], cfg, 77)
	s.send(w.tx, cfg, 99)
	var lines []Identity
	for i := range liars {
		bad := w.rogue(t, "bad"+text(uint64(i)))
		w.hosts[bad.node.Index()] = liarsHost
		lines = append(lines, Identity{Role: RoleReceiver, Key: uint64(1000 + i), Name: bad.m.Name()})
	}
	said := 0
	var say func()
	say = func() {
		if s.tx.state == stateMeeting {
			_ = s.tx.addReceiver(lines[said%liars]) // an error if the liar is pending
			said++
			w.tx.ctl.Kick()
			w.nw.After(10*time.Millisecond, say)
		}
	}
	say()
	w.nw.RunUntil(w.nw.Now().Add(time.Second))
	if err := s.tx.addReceiver(s.rx.Identity()); err != nil {
		t.Fatal(err)
	}
	w.nw.RunUntil(w.nw.Now().Add(10 * time.Second))
	if !s.ended() || s.rx.stats.Datagrams != 100 || s.tx.stats.Refused.Taken == 0 {
		t.Errorf("%d lines, receiver in state %d, %v; %+v", said, s.rx.state, s.rx.err,
			s.tx.stats.Refused)
	}
}

// Receivers that name the data address of a victim, and come again after each refusal, make the
// sender send few probes to the victim, even if each is at a host of its own. A receiver that names
// its own address has the stream afterwards.
func TestProbesOfMany(t *testing.T) {
	const liars, seconds = 60, 12
	w := newSimWorld(t, 11, 2)
	w.teller()
	victim, honest := w.rx[0], w.rx[1]
	w.move(honest, honestHost)
	cfg := Config{Mode: Unreliable, Messages: 100}
	s := w.receiver(honest, cfg, 77)
	s.send(w.tx, cfg, 99)
	for i := range liars {
		bad := w.rogue(t, "bad"+text(uint64(i)))
		from := "198.51.100." + strconv.Itoa(i)
		w.hosts[bad.node.Index()] = from
		id := Identity{Role: RoleReceiver, Key: uint64(1000 + i), Name: bad.m.Name(), from: from}
		bad.answer = func(ep *btl.Endpoint, l obj) {
			switch l["kind"] {
			case letterHello:
				bad.say(ep, obj{"kind": letterWelcome, "key": l["key"], "welcome": obj{
					"grace_ns": "1000000", "data_key": "1", "datagram_bytes": 1400,
					"data": victim.Engine.data.main.ep.Name(),
				}})
			case letterAbort: // its next line at the Meeting, which is refused at the end of the stream
				w.nw.After(100*time.Millisecond, func() {
					_ = s.tx.addReceiver(id)
					w.tx.ctl.Kick()
				})
			}
		}
		if err := s.tx.addReceiver(id); err != nil {
			t.Fatal(err)
		}
	}
	w.tx.ctl.Kick()
	w.nw.RunUntil(w.nw.Now().Add(seconds * time.Second))
	const probes = 20 // of one handshake
	const most = (otherHostBurst + seconds*int(time.Second/otherHostEvery)) * probes
	if n := w.aimed[victim.data.Index()]; n == 0 || n > most {
		t.Errorf("%d probes to the victim in %d s; want 1 to %d", n, seconds, most)
	}
	id := s.rx.Identity()
	id.from = honestHost
	if err := s.tx.addReceiver(id); err != nil {
		t.Fatal(err)
	}
	w.tx.ctl.Kick()
	w.until(time.Minute, func() bool { return s.rx.state == stateDone })
	if s.rx.err != nil || s.rx.stats.Datagrams != 100 {
		t.Errorf("the honest receiver has %d datagrams: %v", s.rx.stats.Datagrams, s.rx.err)
	}
}

// A receiver whose data address is at another of its networks gets the stream, although the address
// seems to be of another host.
func TestDataOfAnotherHost(t *testing.T) {
	w := newSimWorld(t, 12, 1)
	w.teller()
	w.move(w.rx[0], honestHost)
	w.hosts[w.rx[0].data.Index()] = "192.0.2.2"
	cfg := Config{Mode: Unreliable, Messages: 100}
	s := w.receiver(w.rx[0], cfg, 77)
	id := s.rx.Identity()
	id.from = honestHost
	s.send(w.tx, cfg, 99, id)
	w.until(time.Minute, s.ended)
	if s.tx.err != nil || s.rx.err != nil || s.rx.stats.Datagrams != 100 ||
		w.tx.otherHosts.spent != 1 {
		t.Errorf("sender %v, receiver %v, %d datagrams, %d of other hosts", s.tx.err, s.rx.err,
			s.rx.stats.Datagrams, w.tx.otherHosts.spent)
	}
}

// Receivers of one host that join a stream in progress leave places to other hosts, and all hosts
// together have no more than the places.
func TestJoiners(t *testing.T) {
	const strangers = 6
	w := newSimWorld(t, 7, 1+2*strangers)
	w.teller()
	cfg := Config{
		Mode: Unreliable, Messages: 20_000, BitsPerSecond: 64 * 8 * 5000, JoinersMax: 4,
	}
	s := w.open(cfg, Geometry{64, 16, 8}, 0)
	w.until(time.Minute, func() bool { return s.tx.stats.Sent > 100 })
	joins := func(from int) {
		for i := range strangers {
			s.join(w.rx[from+i], cfg, uint64(100+from+i))
		}
		w.nw.RunUntil(w.nw.Now().Add(time.Second))
	}
	for i := range strangers {
		w.move(w.rx[1+i], liarsHost)
	}
	joins(1)
	if n, st := s.tx.stats.Peers, s.tx.stats.Refused.Taken; n != 1+1 || st != strangers-1 {
		t.Errorf("one host: %d receivers, %d refused", n, st)
	}
	joins(1 + strangers) // each is a host of its own
	if n, st := s.tx.stats.Peers, s.tx.stats.Refused.Taken; n != 1+4 || st != 2*strangers-4 {
		t.Errorf("many hosts: %d receivers, %d refused", n, st)
	}
}
