package inet

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"gobtl/fabric"
)

// Headers4Bytes and Headers6Bytes are the sums of the IP and UDP header sizes over IPv4 and over
// IPv6. MaxPayload4Bytes and MaxPayload6Bytes are the largest UDP payloads. A message that Linux
// splits into datagrams (segmentation offload) has at most MaxPayload6Bytes, over IPv4 and over
// IPv6.
const (
	Headers4Bytes    = 20 + 8
	Headers6Bytes    = 40 + 8
	MaxPayload4Bytes = 65535 - Headers4Bytes
	MaxPayload6Bytes = 65535 - Headers6Bytes
)

// Local is an address of this host to which a socket can be bound.
type Local struct {
	Device   string
	Index    int // of the device
	MTUBytes int // of the device, with IP headers
	Network  netip.Prefix
	Addr     netip.Addr // with zone if it is link-local
	Ports    [2]uint16  // of the first two endpoints; 0: any free port, as for all other endpoints
	Port     uint16     // of the endpoint that is being opened

	inner bool // the device seems to lead to no other host
}

// Version is 4 or 6.
func (l *Local) Version() int {
	if l.Addr.Is4() {
		return 4
	}
	return 6
}

// PayloadBytes is the size of the largest UDP payload that the device sends without fragmentation.
func (l *Local) PayloadBytes() int {
	if l.Addr.Is4() {
		return min(l.MTUBytes-Headers4Bytes, MaxPayload4Bytes)
	}
	return min(l.MTUBytes-Headers6Bytes, MaxPayload6Bytes)
}

// The type "node" is a parsed Hints.Node. A Hints.Node selects those IP addresses of this host that
// match the fields "device", "addr" and "loopback", where a zero field matches every address. The
// field "ports" has no influence on the selection, and contains the ports of the endpoints at a
// selected address.
type node struct {
	device   string     // name of the device, or empty
	addr     netip.Addr // the address, if valid; an unspecified address means any
	loopback bool       // the address must be of the loopback device
	ports    [2]uint16
}

// parseNode parses an address ("192.0.2.1", "fe80::1%eth0"), a device ("eth0"), "localhost", or ""
// for any address. The argument "text" of parseNode may end with a port for the first endpoint, or
// with ports for two endpoints, as in "[::1]:4000", ":4000", "0.0.0.0:4000", "eth0:4000" and
// "192.0.2.1:4000,4711".
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

// The method "match" reports whether the Hints.Node selects the address "l". The returned Local is
// "l" with the ports of the Hints.Node, and with its IP address if it has one. The loopback device
// has all addresses of 127.0.0.0/8, although the system reports only 127.0.0.1.
func (n node) match(l Local) (Local, bool) {
	l.Ports = n.ports
	switch {
	case !n.addr.IsValid():
		return l, (n.device == "" || n.device == l.Device) && (!n.loopback || l.Addr.IsLoopback())
	case n.addr.IsUnspecified():
		return l, n.addr.Is4() == l.Addr.Is4()
	case n.addr.WithZone("") == l.Addr.WithZone(""):
		zone := n.addr.Zone()
		return l, zone == "" || zone == l.Device || zone == strconv.Itoa(l.Index)
	case n.addr.Is4() && n.addr.IsLoopback() && l.Addr.IsLoopback() && l.Network.Contains(n.addr):
		l.Addr = n.addr
		return l, true
	}
	return l, false
}

// Locals lists the addresses of this host that a Hints.Node selects, beginning with addresses that
// remote hosts can reach and ending with the addresses of the loopback device. If the argument is
// not a valid Node, the error of Locals wraps ErrNoProvider.
func Locals(nodeText string) ([]Local, error) {
	want, err := parseNode(nodeText)
	if err != nil {
		return nil, fmt.Errorf("%w: node: %w", fabric.ErrNoProvider, err)
	}
	devices, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("%w: the network devices cannot be listed: %w", fabric.ErrUnavailable, err)
	}
	var list []Local
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
	slices.SortStableFunc(list, func(a, b Local) int { return cmp.Compare(a.reach(), b.reach()) })
	return list, nil
}

func newLocal(dev net.Interface, a net.Addr) (Local, bool) {
	ipnet, ok := a.(*net.IPNet)
	if !ok {
		return Local{}, false
	}
	ip, ok := netip.AddrFromSlice(ipnet.IP)
	if !ok {
		return Local{}, false
	}
	ip = ip.Unmap()
	if dev.MTU < 0 {
		dev.MTU = math.MaxUint16 // Windows' loopback device has no limit.
	}
	bits, _ := ipnet.Mask.Size()
	l := Local{Device: dev.Name, Index: dev.Index, MTUBytes: dev.MTU, Addr: ip}
	l.inner = dev.Flags&net.FlagRunning == 0 || bridgesNoHardware(dev.Name)
	l.Network = netip.PrefixFrom(ip, bits).Masked()
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		l.Addr = ip.WithZone(dev.Name)
	}
	return l, l.PayloadBytes() > 0
}

// bridgesNoHardware reports whether a device is a network bridge without hardware ports, which
// connects only containers or virtual machines of this host.
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

// The method "reach" returns a sort key for the addresses of this host. In the order of the sort
// keys, ordinary devices come first, then devices without a carrier and bridges between containers,
// and the loopback device comes last.
func (l *Local) reach() int {
	if l.Addr.IsLoopback() {
		return 6
	}
	kind := 0
	switch {
	case l.Addr.IsLinkLocalUnicast():
		kind = 2
	case l.Addr.Is6():
		kind = 1
	}
	if l.inner {
		return 3 + kind
	}
	return kind
}
