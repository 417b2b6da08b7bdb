//go:build unix

package stream

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric"
)

// Senders of one host do not take all multicast groups of a port: a sender of another host gets
// one. A group that a host uses already is open to its further streams.
func TestGroupsOfOneHost(t *testing.T) {
	open := func(node string) *Port {
		infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: node})
		if err != nil || len(infos) == 0 {
			t.Skipf("%s: %v", node, err)
		}
		p, err := Open(infos[0], PortConfig{})
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() {
			if err := p.Close(t.Context()); err != nil && !errors.Is(err, t.Context().Err()) {
				t.Error(err)
			}
		})
		return p
	}
	port, bad, good := open("127.0.0.1"), open("127.0.0.2"), open("127.0.0.3")
	start := func(from *Port, group int) error {
		rx, err := port.Receive(newRing(t, 64, 4, 4), Config{Mode: Unreliable, Only: true})
		if err != nil {
			t.Fatal(err)
		}
		tx, err := from.Send(newRing(t, 64, 4, 4), Config{
			Mode: Unreliable, Group: fmt.Sprintf("239.77.4.%d:%d", group, 47160+group),
		})
		if errors.Is(err, fabric.ErrNotSupported) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		if err := from.Connect(tx, rx.Identity()); err != nil {
			t.Fatal(err)
		}
		<-rx.Started()
		return rx.Err()
	}
	taken := 0
	for ; taken < 20 && start(bad, taken+1) == nil; taken++ {
	}
	if taken != 4 {
		t.Errorf("one host has %d groups, want 4", taken)
	}
	if err := start(bad, 1); err != nil {
		t.Errorf("another stream in a group of the same host: %v", err)
	}
	for i := range 2 {
		if err := start(good, 30+i); err != nil {
			t.Errorf("group %d of another host, beside %d of one host: %v", i+1, taken, err)
		}
	}
}

// groupCounter is a domain that counts the multicast groups that its user wants to join.
type groupCounter struct {
	fabric.Domain
	fabric.Grouper
	joins int
}

func (g *groupCounter) OpenGroup(string, fabric.EndpointConfig) (fabric.Endpoint, error) {
	g.joins++
	return nil, fabric.ErrNotSupported
}

// A start message with a wrong address of the sender's data makes the receiver join no group.
func TestWrongStartJoinsNoGroup(t *testing.T) {
	w := newSimWorld(t, 73, 1)
	w.teller()
	w.rx[0] = w.host("chosen") // it tells hosts apart
	w.move(w.rx[0], honestHost)
	w.move(w.tx, liarsHost)
	data := w.rx[0].Engine.data
	groups := &groupCounter{Domain: data.dom}
	data.dom = groups
	s := w.receiver(w.rx[0], Config{Mode: Unreliable}, 77)
	bad := w.rogue(t, "bad")
	w.hosts[bad.node.Index()] = liarsHost
	bad.connect(s.rx.Identity().Name)
	for _, c := range []struct {
		data  []byte
		joins int
	}{{data.main.ep.Name(), 0}, {w.tx.Engine.data.main.ep.Name(), 1}} {
		bad.say(bad.ep, bad.hello(77, obj{"mode": "unreliable", "group": "239.1.1.1:5"}))
		w.until(time.Minute, func() bool { return len(s.rx.candidates) > 0 })
		bad.say(bad.ep, obj{"kind": letterStart, "key": text(bad.key), "start": obj{
			"datagram_bytes": headerBytes + 64, "sent": "0", "data_key": "5", "data": c.data,
		}})
		w.until(time.Minute, func() bool { return len(s.rx.candidates) == 0 })
		if groups.joins != c.joins {
			t.Errorf("%d groups are joined, want %d: %v", groups.joins, c.joins, s.rx.latest)
		}
	}
}

// deafEndpoint is an endpoint that takes no receive buffers.
type deafEndpoint struct{ fabric.Endpoint }

func (deafEndpoint) Caps() fabric.Caps              { return fabric.Caps{RxDepth: 8} }
func (deafEndpoint) Recv([]fabric.Buf) (int, error) { return 0, fabric.ErrClosed }

// A group whose endpoint takes no receive buffers leaves nothing behind.
func TestGroupWithoutBuffers(t *testing.T) {
	d := &dataPort{free: make([]fabric.Buf, 20)}
	_, err := d.add(deafEndpoint{}, "239.1.1.1:5")
	if !errors.Is(err, fabric.ErrClosed) || len(d.all) != 0 || len(d.free) != 20 {
		t.Errorf("%v; %d endpoints, %d free buffers", err, len(d.all), len(d.free))
	}
}
