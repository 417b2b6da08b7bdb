package udp

import (
	"encoding/binary"
	"net/netip"
)

// An endpoint's name is a byte with the IP version, the port in network order, and the address. The
// zone of a link-local address is not part of the name, because the zone is a number that is valid
// only on one host.
const (
	nameBytes4 = 1 + 2 + 4
	nameBytes6 = 1 + 2 + 16
)

// encodeName returns the name of an endpoint with this address.
func encodeName(ap netip.AddrPort) []byte { return appendName(nil, ap) }

func appendName(name []byte, ap netip.AddrPort) []byte {
	if ip := ap.Addr(); ip.Is6() {
		name = binary.BigEndian.AppendUint16(append(name, 6), ap.Port())
		bytes := ip.As16()
		return append(name, bytes[:]...)
	}
	name = binary.BigEndian.AppendUint16(append(name, 4), ap.Port())
	bytes := ap.Addr().As4()
	return append(name, bytes[:]...)
}

// decodeName reads a name from an untrusted source. A valid name is the address of a single peer
// that a socket of the given IP version can reach. Names with port 0, an unspecified address or a
// multicast address are refused. A forged name must not make this host flood a multicast group.
func decodeName(name []byte, version int) (netip.AddrPort, error) {
	want := nameBytes4
	if version == 6 {
		want = nameBytes6
	}
	if len(name) != want {
		return netip.AddrPort{}, badName("%d bytes long, want %d", len(name), want)
	}
	if int(name[0]) != version {
		return netip.AddrPort{}, badName("IP version %d, want %d", name[0], version)
	}
	port := binary.BigEndian.Uint16(name[1:])
	ip, _ := netip.AddrFromSlice(name[3:])
	switch {
	case port == 0:
		return netip.AddrPort{}, badName("port 0")
	case ip.Is4In6():
		return netip.AddrPort{}, badName("%v is an IPv4 address in the name of an IPv6 one", ip)
	case ip.IsUnspecified() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return netip.AddrPort{}, badName("%v is not the address of one host", ip)
	}
	return netip.AddrPortFrom(ip, port), nil
}
