//go:build unix

package stream

import (
	"errors"
	"fmt"
	"testing"

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
