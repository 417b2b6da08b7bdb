//go:build linux

package vnic

import (
	"fmt"
	"testing"

	"gobtl/test/netns"
)

// container joins a host of its own to a host's bridge, of which the device of port 1 is a port,
// and gives it an address. It makes the bridge where there is none.
func (l *lab) container(host string, number int) *netns.Host {
	l.t.Helper()
	inner := l.net.Host(fmt.Sprintf("c%d", number))
	in, out := l.net.Cable(inner, l.hosts[host], 1500)
	inner.IP("addr flush dev "+in.Dev,
		fmt.Sprintf("addr add 10.88.0.%d/24 dev %s", number, in.Dev))
	if _, err := l.try(host, "ip", "link", "show", "br1"); err != nil {
		l.hosts[host].IP("addr flush dev vnic1", "link add br1 type bridge", "link set br1 up",
			"link set vnic1 master br1")
	}
	l.hosts[host].IP("link set "+out.Dev+" master br1", "link set "+out.Dev+" up")
	return inner
}

// TestBridges has devices of the switch be ports of Linux bridges with containers behind them. A
// host reports its own addresses, and not those that its bridge has learned from the others: the
// containers and the hosts reach each other, whoever gets a bridge when.
func TestBridges(t *testing.T) {
	l := newLab(t, 1700)
	l.up(blue("learning = true\nflood = true", "a", "b", "c"))
	reach := func(from *netns.Host, to string) {
		t.Helper()
		out, err := from.Command("ping", "-c", "5", "-i", "0.05", "-W", "5", "-q", to).CombinedOutput()
		if err != nil {
			t.Errorf("ping %s from %s: %v\n%s", to, from.Name, err, out)
		}
	}
	first := l.container("a", 11)
	reach(first, "10.88.0.3")
	second := l.container("b", 12)
	reach(second, "10.88.0.3")
	reach(l.hosts["c"], "10.88.0.11")
	l.settled("b")
	for range 2 {
		reach(first, "10.88.0.3")
		reach(second, "10.88.0.11")
		reach(l.hosts["c"], "10.88.0.12")
	}
	for _, host := range names[:3] {
		var rows []struct {
			MAC string
			LID int
		}
		l.show(host, "macs", &rows)
		at := make(map[string]int)
		for _, r := range rows {
			at[r.MAC] = r.LID
		}
		for i, other := range names[:3] {
			mac := l.port(other, 1).MAC
			if at[mac] != i+1 {
				t.Errorf("in the table of %s, %s of host %s is at LID %d", host, mac, other, at[mac])
			}
		}
	}
}
