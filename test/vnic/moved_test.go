//go:build linux

package vnic

import (
	"strings"
	"testing"
)

// TestMovedWithSuppress moves addresses from host b to host c while the port of host a answers its
// questions for them. Each time that host a has its kernel forget the address and asks anew, the
// answer is that of the new owner, at the latest with the second question.
func TestMovedWithSuppress(t *testing.T) {
	l := newLab(t, 1700)
	for _, h := range names[:3] {
		l.hosts[h].Sysctl("net/ipv6/conf/default/accept_dad", "1") // that of the devices to come
		l.hosts[h].Sysctl("net/ipv6/conf/all/accept_dad", "1")
	}
	l.up(blue("suppress = true", "a", "b", "c"))
	for i, h := range names[:3] {
		l.hosts[h].IP("addr add fd88::" + string(rune('1'+i)) + "/64 dev vnic1 nodad")
	}
	for _, c := range []struct {
		what, address, mask, add string
		questions                int
	}{
		// Nothing tells the others: the first answer may still be the old one.
		{"IPv4 without an announcement", "10.88.0.50", "/24", "", 2},
		{"IPv6 without an announcement", "fd88::50", "/64", " nodad", 2},
		// The new owner's kernel looks for duplicates, which all ports hear.
		{"IPv6 with duplicate address detection", "fd88::51", "/64", "", 1},
	} {
		l.give("b", c.address+c.mask+" dev vnic1"+c.add)
		if got := l.asks(c.address, 1); got != 1 {
			t.Fatalf("%s: host b does not answer", c.what)
		}
		before := l.counters("a", 1)["tx_suppressed"]
		if got := l.asks(c.address, 1); got != 1 || l.counters("a", 1)["tx_suppressed"] == before {
			t.Fatalf("%s: the port does not answer for host b: %v", c.what, l.counters("a", 1))
		}
		l.hosts["b"].IP("addr del " + c.address + c.mask + " dev vnic1")
		l.give("c", c.address+c.mask+" dev vnic1"+c.add)
		if got := l.asks(c.address, 10); got > c.questions {
			t.Errorf("%s: right after %d questions, want %d", c.what, got, c.questions)
		}
	}
}

// give adds an address to a host, and waits until its kernel has looked for duplicates.
func (l *lab) give(host, address string) {
	l.t.Helper()
	l.hosts[host].IP("addr add " + address)
	l.eventually("the address of "+host+" is no more tentative", func() bool {
		out, err := l.try(host, "ip", "-6", "addr", "show", "dev", "vnic1", "tentative")
		return err == nil && strings.TrimSpace(out) == ""
	})
}

// asks has the kernel of host a ask for an address until it has found its owner, or often enough,
// and says how often it has asked.
func (l *lab) asks(address string, most int) int {
	l.t.Helper()
	for n := 1; n <= most; n++ {
		_, _ = l.try("a", "ip", "neigh", "del", address, "dev", "vnic1")
		if _, err := l.try("a", "ping", "-c", "1", "-W", "2", "-q", address); err == nil {
			return n
		}
	}
	return most + 1
}
