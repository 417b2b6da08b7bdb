package vnic

import (
	"strings"
	"testing"
)

// TestBetterAddress starts an agent on a device that has a link-local address alone, as before
// DHCP. The agent waits for an address of the manager's IP version.
func TestBetterAddress(t *testing.T) {
	l := newLab(t, 1700)
	l.write(blue("", "a", "b"))
	l.manager()
	l.hosts["a"].IP("addr flush dev eth0", "addr add fe80::a/64 dev eth0 nodad")
	l.agent("a")
	l.eventually("the agent waits", func() bool {
		return strings.Contains(l.procs["a"].out.String(), "waiting for an address")
	})
	l.hosts["a"].IP("addr add 10.77.0.1/24 dev eth0")
	l.eventually("the agent is bound", func() bool {
		return strings.Contains(l.procs["a"].out.String(), "host a on 10.77.0.1")
	})
}
