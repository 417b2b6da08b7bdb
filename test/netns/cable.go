//go:build linux

package netns

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Port is one end of a cable.
type Port struct {
	Host *Host
	Dev  string // "eth0" is a host's first port
	// The port's addresses are 10.99.N.1 or 10.99.N.2 for cable N, and corresponding IPv6
	// addresses.
	V4, V6, LinkLocal netip.Addr
}

// Zoned is the link-local address as the port's own host writes it, such as "fe80::1%eth0".
func (p Port) Zoned() string { return p.LinkLocal.WithZone(p.Dev).String() }

// Cable joins two hosts. Both ports are up, and have the MTU, an IPv4 address, an IPv6 address and
// a link-local address.
func (l *Lab) Cable(a, b *Host, mtuBytes int) (Port, Port) {
	l.tb.Helper()
	l.cables++
	end := func(h *Host, side int) Port {
		p := Port{
			Host: h, Dev: fmt.Sprintf("eth%d", h.ports),
			V4:        netip.MustParseAddr(fmt.Sprintf("10.99.%d.%d", l.cables, side)),
			V6:        netip.MustParseAddr(fmt.Sprintf("fd99:%x::%d", l.cables, side)),
			LinkLocal: netip.MustParseAddr(fmt.Sprintf("fe80::%x:%d", l.cables, side)),
		}
		h.ports++
		return p
	}
	pa, pb := end(a, 1), end(b, 2)
	a.IP(fmt.Sprintf("link add %s mtu %d type veth peer name %s mtu %d netns %s", pa.Dev, mtuBytes,
		pb.Dev, mtuBytes, b.NS))
	for _, p := range []Port{pa, pb} {
		p.Host.IP(
			"link set "+p.Dev+" addrgenmode none", // no link-local address but ours
			fmt.Sprintf("addr add %s/24 dev %s", p.V4, p.Dev),
			fmt.Sprintf("addr add %s/64 dev %s nodad", p.V6, p.Dev),
			fmt.Sprintf("addr add %s/64 dev %s nodad", p.LinkLocal, p.Dev),
			"link set "+p.Dev+" up",
		)
	}
	pa.await()
	pb.await()
	return pa, pb
}

// await waits until the port uses IPv6, because the kernel detects the carrier of a new link only
// after some time.
func (p Port) await() {
	tb := p.Host.lab.tb
	tb.Helper()
	const multicast = "ff000000000000000000000000000000 08"
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		ready := false
		p.Host.Do(func() {
			routes, err := os.ReadFile("/proc/thread-self/net/ipv6_route")
			if err != nil {
				tb.Fatalf("host %s: no IPv6: %v", p.Host.Name, err)
			}
			for line := range strings.Lines(string(routes)) {
				fields := strings.Fields(line)
				ready = ready || strings.HasPrefix(line, multicast) && fields[len(fields)-1] == p.Dev
			}
		})
		if ready {
			return
		}
		if time.Since(start) > 10*time.Second {
			tb.Fatalf("host %s: %s does not get ready for IPv6", p.Host.Name, p.Dev)
		}
	}
}

// Route joins two hosts through a router, with one MTU for each of the two cables. The router's two
// ports are on the cables of the outer ports, and the router is returned for filters and queues.
func (l *Lab) Route(a, b *Host, mtuA, mtuB int) (pa, pb Port, router *Host) {
	l.tb.Helper()
	router = l.Host("router")
	router.Sysctl("net/ipv4/ip_forward", "1")
	router.Sysctl("net/ipv6/conf/all/forwarding", "1")
	pa, left := l.Cable(a, router, mtuA)
	pb, right := l.Cable(b, router, mtuB)
	a.IP("route add default via "+left.V4.String(), "route add ::/0 via "+left.V6.String())
	b.IP("route add default via "+right.V4.String(), "route add ::/0 via "+right.V6.String())
	return pa, pb, router
}
