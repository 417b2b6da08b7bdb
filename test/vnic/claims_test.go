//go:build linux

package vnic

import (
	"strings"
	"testing"
)

// TestSameAddress gives the device of host b the address that host a's device has. The manager says
// which host claims the address of which, the one that had it keeps it, and the third host reaches
// that one as before. When host b has an address of its own again all is well.
func TestSameAddress(t *testing.T) {
	l := newLab(t, 1700)
	l.up(blue("", "a", "b", "c"))
	own, stolen := l.port("b", 1).MAC, l.port("a", 1).MAC
	problem := func(host string) string {
		var hosts []struct{ Name, Problem string }
		l.show("m", "hosts", &hosts)
		for _, h := range hosts {
			if h.Name == host {
				return h.Problem
			}
		}
		return "not there"
	}
	l.ping("c", "10.88.0.1")
	l.hosts["b"].IP("link set vnic1 address " + stolen)
	l.eventually("the manager says who claims what", func() bool {
		return strings.Contains(problem("b"), stolen)
	})
	for range 3 {
		l.ping("c", "10.88.0.1")
	}
	if text := problem("a"); text != "" {
		t.Errorf("the owner has the problem %q", text)
	}
	l.hosts["b"].IP("link set vnic1 address " + own)
	l.eventually("nobody claims what is another's", func() bool { return problem("b") == "" })
	l.ping("c", "10.88.0.2")
	l.ping("c", "10.88.0.1")
}

// TestOneProcessor has manager and agents share one processor. All hosts reach each other.
func TestOneProcessor(t *testing.T) {
	l := newLab(t, 1700)
	l.net.Need("taskset", "util-linux")
	l.prefix = []string{"taskset", "-c", "0"}
	l.up(blue("", "a", "b", "c"))
	for _, from := range names[:3] {
		for _, to := range []string{"10.88.0.1", "10.88.0.2", "10.88.0.3"} {
			l.ping(from, to)
		}
	}
	if rate := l.iperf("-t", "1"); rate == 0 {
		t.Errorf("%v bit/s", rate)
	}
}

// TestLinkLocal has the network below the switch carry link-local addresses alone, with the zone of
// each host.
func TestLinkLocal(t *testing.T) {
	l := newLab(t, 1700)
	for i, h := range names {
		l.hosts[h].IP("addr flush dev eth0", "addr add fe80::"+string(rune('1'+i))+"/64 dev eth0 nodad")
	}
	l.em = "[fe80::4%eth0]"
	l.up(blue("", "a", "b", "c"))
	l.ping("a", "10.88.0.2")
	l.ping("c", "10.88.0.1")
}
