//go:build linux

package vnic

import (
	"fmt"
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

// TestSameIP gives the device of host b the IP address that host a's device has. Both agents say
// which host has it as well, and the third host's agent says nothing. Of IPv6 the kernel itself
// finds out, and the agent says so. When host b has an address of its own again all is well.
func TestSameIP(t *testing.T) {
	l := newLab(t, 1700)
	l.up(blue("", "a", "b", "c"))
	problem := func(host string) string { return l.port(host, 1).Problems["ip address"] }
	says := func(host, ip, of string, lid int) {
		want := fmt.Sprintf("%s is also the address of %s, at LID %d", ip, l.port(of, 1).MAC, lid)
		l.eventually(host+" says: "+want, func() bool {
			// Each asks for the third host, as kernels do when they have forgotten it.
			for _, asks := range []string{"a", "b"} {
				_ = l.hosts[asks].Command("arping", "-c", "1", "-w", "1", "-I", "vnic1", "10.88.0.3").Run()
			}
			return problem(host) == want
		})
	}
	l.hosts["b"].IP("addr flush dev vnic1", "addr add 10.88.0.1/24 dev vnic1")
	says("a", "10.88.0.1", "b", 2)
	says("b", "10.88.0.1", "a", 1)
	if text := problem("c"); text != "" {
		t.Errorf("the third host has the problem %q", text)
	}
	l.hosts["b"].IP("addr flush dev vnic1", "addr add 10.88.0.2/24 dev vnic1")
	l.eventually("host b has no problem", func() bool { return problem("b") == "" })

	for _, h := range []string{"a", "b"} {
		l.hosts[h].Sysctl("net/ipv6/conf/vnic1/accept_dad", "1")
	}
	l.hosts["a"].IP("addr add fd00::1/64 dev vnic1")
	l.eventually("the kernel of host a uses the address", func() bool {
		out := l.hosts["a"].Run("ip", "-6", "addr", "show", "dev", "vnic1", "-tentative")
		return strings.Contains(out, "fd00::1")
	})
	l.hosts["b"].IP("addr add fd00::1/64 dev vnic1")
	l.eventually("host b says that the address is taken", func() bool {
		return strings.Contains(problem("b"), "fd00::1")
	})
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
