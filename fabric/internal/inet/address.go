package inet

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"gobtl/fabric"
)

// splitPorts splits a text such as "192.0.2.1:4000,4711" into a host and two ports. If a text has
// only one port, the second port is the next higher port number.
func splitPorts(text string) (host string, ports [2]uint16, err error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.String(), ports, nil
	}
	first, after, told := strings.Cut(text, ",")
	colon := strings.LastIndexByte(first, ':')
	if colon < 0 {
		if told {
			return "", ports, BadName("%q has a second port and no first one: write %s:4000,4711", text,
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
		return "", ports, BadName("%q: an IPv6 address with a port stands in brackets: "+
			"[2001:db8::1]:4000", text)
	case bracketed:
		host = strings.TrimSuffix(bare, "]")
	}
	switch {
	case told:
		ports[1], err = parsePort(text, after)
	case ports[0] == math.MaxUint16:
		err = BadName("%q: no port comes after %d for the second channel: write both, as in %s,%d", text,
			ports[0], text, ports[0]-1)
	case ports[0] != 0: // else any two
		ports[1] = ports[0] + 1
	}
	return host, ports, err
}

func parsePort(text, port string) (uint16, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0, BadName("%q: %q is no port from 0 to 65535", text, port)
	}
	return uint16(n), nil
}

// ParsePair parses the textual address of a pair of endpoints, which is an IP address with one or
// two ports (see fabric.Addresser). ParsePair ignores the zone of the IP address.
func ParsePair(text string) (pair [2]netip.AddrPort, err error) {
	host, ports, err := splitPorts(text)
	if err != nil {
		return pair, err
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || ports[0] == 0 && ports[1] == 0 {
		return pair, BadName("%q is no address: write 192.0.2.1:4000, [2001:db8::1]:4000 or "+
			"192.0.2.1:4000,4711; names are not looked up", text)
	}
	for i := range pair {
		pair[i] = netip.AddrPortFrom(addr.WithZone(""), ports[i])
	}
	return pair, nil
}

// ParseAddress parses the textual address of a pair of UDP endpoints, which is an IP address of the
// given version with one or two ports (see fabric.Addresser).
func ParseAddress(text string, version int) (first, second []byte, err error) {
	pair, err := ParsePair(text)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range []*[]byte{&first, &second} {
		*name = EncodeName(netip.AddrPortFrom(pair[i].Addr().Unmap(), pair[i].Port()))
		if _, err := DecodeName(*name, version); err != nil {
			return nil, nil, err
		}
	}
	return first, second, nil
}

// FormatName returns the textual form of an endpoint name, as fabric.Addresser.FormatName
// specifies.
func FormatName(name []byte, version int) string {
	ap, err := DecodeName(name, version)
	if err != nil {
		return hex.EncodeToString(name)
	}
	return ap.String()
}

// Host returns the part of an endpoint name that identifies its host, which is the IPv4 address or
// the first half of the IPv6 address. The second half of an IPv6 address does not identify a host,
// because an IPv6 host can choose the second half of its address freely.
func Host(name []byte) []byte {
	const at, network6Bytes = 1 + 2, 8
	switch len(name) {
	case nameBytes4:
		return name[at:]
	case nameBytes6:
		return name[at:][:network6Bytes]
	}
	return name
}

// BadName returns an error that wraps fabric.ErrBadName.
func BadName(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{fabric.ErrBadName}, args...)...)
}
