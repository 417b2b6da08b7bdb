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

// parsePorts reads "192.0.2.1:4000" or "192.0.2.1:4000,4711": an address with two ports, the second
// one the next after the first where it is not told.
func parsePorts(text string) (first netip.AddrPort, second uint16, ok bool) {
	text, after, told := strings.Cut(text, ",")
	first, err := netip.ParseAddrPort(text)
	if err != nil {
		return first, 0, false
	}
	first = netip.AddrPortFrom(first.Addr().Unmap(), first.Port())
	if told {
		n, err := strconv.ParseUint(after, 10, 16)
		return first, uint16(n), err == nil
	}
	switch first.Port() {
	case 0: // any two
		return first, 0, true
	case math.MaxUint16:
		return first, 0, false
	}
	return first, first.Port() + 1, true
}

// ParseAddress implements fabric.Addresser. A host is an IP address of this domain's version.
func (d *domain) ParseAddress(text string) (first, second []byte, err error) {
	ap, port, ok := parsePorts(text)
	if !ok {
		return nil, nil, badName("%q is no address: write 192.0.2.1:4000, [2001:db8::1]:4000 or "+
			"192.0.2.1:4000,4711", text)
	}
	first = encodeName(ap)
	second = encodeName(netip.AddrPortFrom(ap.Addr(), port))
	for _, name := range [][]byte{first, second} {
		if _, err := decodeName(name, d.local.version()); err != nil {
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

// Host implements fabric.Addresser: an IPv4 address, or the first half of an IPv6 one, which is all
// that somebody who has a network of his own cannot choose.
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
