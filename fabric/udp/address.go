//go:build linux

package udp

import (
	"encoding/hex"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"gobtl/fabric"
)

var _ fabric.Addresser = (*domain)(nil)

// splitPorts splits a text such as "HOST:4000", "HOST:4000,4711", ":4000" or "[::1]:4000" into a
// host and two ports. The default of the second port is the first port plus one. A text without a
// port is a host.
func splitPorts(text string) (host string, ports [2]uint16, err error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.String(), ports, nil
	}
	first, after, told := strings.Cut(text, ",")
	colon := strings.LastIndexByte(first, ':')
	if colon < 0 {
		if told {
			return "", ports, badName("%q has a second port and no first one: write %s:4000,4711", text,
				first)
		}
		return text, ports, nil
	}
	host = first[:colon]
	if ports[0], err = parsePort(text, first[colon+1:]); err != nil {
		return "", ports, err
	}
	bare, bracketed := strings.CutPrefix(host, "[")
	switch {
	case bracketed && !strings.HasSuffix(bare, "]"), !bracketed && strings.ContainsAny(host, ":]"):
		return "", ports, badName("%q: an IPv6 address with a port stands in brackets: "+
			"[2001:db8::1]:4000", text)
	case bracketed:
		host = strings.TrimSuffix(bare, "]")
	}
	switch {
	case told:
		ports[1], err = parsePort(text, after)
	case ports[0] == math.MaxUint16:
		err = badName("%q: no port comes after %d for the second channel: write both, as in %s,%d", text,
			ports[0], text, ports[0]-1)
	case ports[0] != 0: // port 0 means any two ports
		ports[1] = ports[0] + 1
	}
	return host, ports, err
}

func parsePort(text, port string) (uint16, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0, badName("%q: %q is no port from 0 to 65535", text, port)
	}
	return uint16(n), nil
}

// ParseAddress implements fabric.Addresser. The host must be an IP address of this domain's
// version.
func (d *domain) ParseAddress(text string) (first, second []byte, err error) {
	host, ports, err := splitPorts(text)
	if err != nil {
		return nil, nil, err
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || ports[0] == 0 && ports[1] == 0 {
		return nil, nil, badName("%q is no address: write 192.0.2.1:4000, [2001:db8::1]:4000 or "+
			"192.0.2.1:4000,4711; names are not looked up", text)
	}
	for i, name := range []*[]byte{&first, &second} {
		*name = encodeName(netip.AddrPortFrom(addr.Unmap(), ports[i]))
		if _, err := decodeName(*name, d.local.version()); err != nil {
			return nil, nil, err
		}
	}
	return first, second, nil
}

// FormatName implements fabric.Addresser.
func (d *domain) FormatName(name []byte) string {
	ap, err := decodeName(name, d.local.version())
	if err != nil {
		return hex.EncodeToString(name)
	}
	return ap.String()
}

// Host implements fabric.Addresser. Host returns an IPv4 address, or the first half of an IPv6
// address. The owner of an IPv6 network cannot choose the first half, but can choose the second
// half.
func (d *domain) Host(name []byte) []byte {
	const at, network6Bytes = 1 + 2, 8
	switch len(name) {
	case nameBytes4:
		return name[at:]
	case nameBytes6:
		return name[at:][:network6Bytes]
	}
	return name
}
