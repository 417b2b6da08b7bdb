//go:build linux

package udp

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

const (
	headers4Bytes = 20 + 8
	headers6Bytes = 40 + 8
	// These are the largest payloads of one IP packet. IPv6 could carry slightly more in a single
	// datagram, but not in a message that the kernel cuts into datagrams. Messages that the kernel
	// cuts into datagrams have a smaller limit, which is in runs.go.
	maxPayload4Bytes = 65535 - headers4Bytes
	maxPayload6Bytes = 65535 - headers6Bytes
)

// local is an address of this host to which a socket can be bound.
type local struct {
	device  string
	index   int // of the device
	mtu     int // MTU of the device, including IP headers
	network netip.Prefix
	addr    netip.Addr // with zone if it is link-local
	inner   bool       // the device seems to lead to no other host
	ports   [2]uint16  // of the first two endpoints; 0: any port
	port    uint16     // of the endpoint that is being opened
}

// version is 4 or 6.
func (l *local) version() int {
	if l.addr.Is4() {
		return 4
	}
	return 6
}

// payloadBytes is the largest datagram that the device sends without fragmentation.
func (l *local) payloadBytes() int {
	if l.addr.Is4() {
		return min(l.mtu-headers4Bytes, maxPayload4Bytes)
	}
	return min(l.mtu-headers6Bytes, maxPayload6Bytes)
}

// node is a parsed Hints.Node, which selects addresses of this host. An address must satisfy all
// fields that are set.
type node struct {
	device   string     // name of the device, or empty
	addr     netip.Addr // the address, if valid; an unspecified address means any
	loopback bool       // the address must be of the loopback device
	ports    [2]uint16
}

// parseNode reads an address ("192.0.2.1", "fe80::1%eth0"), a device ("eth0"), "localhost", or ""
// for any address. Ports for the first and the second endpoint may follow, as in "192.0.2.1:4000",
// "[::1]:4000", ":4000", "0.0.0.0:4000", "eth0:4000" and "192.0.2.1:4000,4711".
func parseNode(text string) (node, error) {
	host, ports, err := splitPorts(text)
	n := node{ports: ports}
	if err != nil {
		return n, err
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		n.addr = addr.Unmap()
		return n, nil
	}
	n.device = host
	if n.loopback = host == "localhost"; n.loopback {
		n.device = ""
	}
	return n, nil
}

// match returns the local address that the node selects for an address of a device, and whether the
// node selects the address at all. All addresses of 127.0.0.0/8 belong to this host, although the
// loopback device lists only one.
func (n node) match(l local) (local, bool) {
	l.ports = n.ports
	switch {
	case !n.addr.IsValid():
		return l, (n.device == "" || n.device == l.device) && (!n.loopback || l.addr.IsLoopback())
	case n.addr.IsUnspecified():
		return l, n.addr.Is4() == l.addr.Is4()
	case n.addr.WithZone("") == l.addr.WithZone(""):
		zone := n.addr.Zone()
		return l, zone == "" || zone == l.device || zone == strconv.Itoa(l.index)
	case n.addr.Is4() && n.addr.IsLoopback() && l.addr.IsLoopback() && l.network.Contains(n.addr):
		l.addr = n.addr
		return l, true
	}
	return l, false
}

// locals lists the addresses that a Hints.Node selects, best first. Addresses that other hosts can
// reach come first, and the loopback device comes last. If the Node cannot be read, the error wraps
// ErrNoProvider.
func locals(nodeText string) ([]local, error) {
	want, err := parseNode(nodeText)
	if err != nil {
		return nil, fmt.Errorf("%w: node: %w", fabric.ErrNoProvider, err)
	}
	devices, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("%w: the network devices cannot be listed: %w", fabric.ErrUnavailable, err)
	}
	var list []local
	for _, dev := range devices {
		if dev.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := dev.Addrs()
		if err != nil {
			continue // the device has disappeared
		}
		for _, a := range addrs {
			l, ok := newLocal(dev, a)
			if !ok {
				continue
			}
			if l, ok = want.match(l); ok {
				list = append(list, l)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b local) int { return cmp.Compare(a.reach(), b.reach()) })
	return list, nil
}

func newLocal(dev net.Interface, a net.Addr) (local, bool) {
	ipnet, ok := a.(*net.IPNet)
	if !ok {
		return local{}, false
	}
	ip, ok := netip.AddrFromSlice(ipnet.IP)
	if !ok {
		return local{}, false
	}
	ip = ip.Unmap()
	bits, _ := ipnet.Mask.Size()
	l := local{device: dev.Name, index: dev.Index, mtu: dev.MTU, addr: ip}
	l.inner = dev.Flags&net.FlagRunning == 0 || bridgesNoHardware(dev.Name)
	l.network = netip.PrefixFrom(ip, bits).Masked()
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		l.addr = ip.WithZone(dev.Name)
	}
	return l, l.payloadBytes() > 0
}

// bridgesNoHardware reports whether a device is a bridge without hardware ports. A bridge without
// hardware connects containers or virtual machines of this host.
func bridgesNoHardware(device string) bool {
	ports, err := os.ReadDir("/sys/class/net/" + device + "/brif")
	if err != nil {
		return false // The device is not a bridge.
	}
	return !slices.ContainsFunc(ports, func(port os.DirEntry) bool {
		_, err := os.Stat("/sys/class/net/" + port.Name() + "/device")
		return err == nil
	})
}

// reach orders addresses by their reachability. Devices without carrier and bridges between
// containers come after all other devices except loopback.
func (l *local) reach() int {
	if l.addr.IsLoopback() {
		return 6
	}
	kind := 0
	switch {
	case l.addr.IsLinkLocalUnicast():
		kind = 2
	case l.addr.Is6():
		kind = 1
	}
	if l.inner {
		return 3 + kind
	}
	return kind
}

// scope is this host's number for the zone of link-local addresses.
func (l *local) scope() uint32 { return uint32(l.index) }

func (l *local) sockaddr() unix.Sockaddr {
	if l.addr.Is4() {
		return &unix.SockaddrInet4{Port: int(l.port), Addr: l.addr.As4()}
	}
	sa := &unix.SockaddrInet6{Port: int(l.port), Addr: l.addr.As16()}
	if l.addr.IsLinkLocalUnicast() {
		sa.ZoneId = l.scope()
	}
	return sa
}
