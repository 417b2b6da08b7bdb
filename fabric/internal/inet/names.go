package inet

import (
	"encoding/binary"
	"net/netip"
)

// An endpoint's name consists of a byte with the IP version, the port in network byte order, and
// the IP address. The zone of a link-local address is not part of an endpoint's name, because the
// zone is a number that is valid only on one host.
const (
	nameBytes4 = 1 + 2 + 4
	nameBytes6 = 1 + 2 + 16
)

// EncodeName returns the name of an endpoint with the given address.
func EncodeName(ap netip.AddrPort) []byte { return AppendName(nil, ap) }

// AppendName appends the name of the endpoint with the address "ap" to the slice "name".
func AppendName(name []byte, ap netip.AddrPort) []byte {
	if ip := ap.Addr(); ip.Is6() {
		name = binary.BigEndian.AppendUint16(append(name, 6), ap.Port())
		bytes := ip.As16()
		return append(name, bytes[:]...)
	}
	name = binary.BigEndian.AppendUint16(append(name, 4), ap.Port())
	bytes := ap.Addr().As4()
	return append(name, bytes[:]...)
}

// DecodeName decodes an endpoint name from an untrusted source. DecodeName refuses a name whose IP
// version is not the argument "version", a name with port 0, and a name with an unspecified,
// broadcast, multicast or IPv4-mapped IPv6 address. The error of DecodeName wraps
// fabric.ErrBadName.
func DecodeName(name []byte, version int) (netip.AddrPort, error) {
	want := nameBytes4
	if version == 6 {
		want = nameBytes6
	}
	if len(name) != want {
		return netip.AddrPort{}, BadName("%d bytes long, want %d", len(name), want)
	}
	if int(name[0]) != version {
		return netip.AddrPort{}, BadName("IP version %d, want %d", name[0], version)
	}
	port := binary.BigEndian.Uint16(name[1:])
	ip, _ := netip.AddrFromSlice(name[3:])
	switch {
	case port == 0:
		return netip.AddrPort{}, BadName("port 0")
	case ip.Is4In6():
		return netip.AddrPort{}, BadName("%v is an IPv4 address in the name of an IPv6 one", ip)
	case ip.IsUnspecified() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return netip.AddrPort{}, BadName("%v is not the address of one host", ip)
	}
	return netip.AddrPortFrom(ip, port), nil
}
