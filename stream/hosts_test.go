//go:build unix

package stream

import (
	"net"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
)

// town is a domain that tells hosts apart.
type town struct {
	fabric.Domain
	hosts map[int]string // IP addresses by node; any other node is a host of its own
}

func (town) ParseAddress(string) (first, second []byte, err error) {
	return nil, nil, fabric.ErrBadName
}

func (d town) FormatName(name []byte) string { return net.JoinHostPort(string(d.Host(name)), "1") }

func (d town) Host(name []byte) []byte {
	if p, err := sim.ParsePort(name); err == nil && d.hosts[p.Node] != "" {
		return []byte(d.hosts[p.Node])
	}
	return name
}

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
