//go:build linux && cgo

package ofi

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"syscall"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

// The type "inetDomain" is a domain whose endpoint names are socket addresses. An inetDomain
// implements fabric.Addresser, because a socket address contains the address of a host.
type inetDomain struct{ *domain }

var _ fabric.Addresser = inetDomain{}

// If the endpoint names of the domain "d" are socket addresses, the function "addressed" wraps "d"
// in an inetDomain, which implements fabric.Addresser, and otherwise returns "d" itself.
func addressed(d *domain) fabric.Domain {
	if d.rules.form == formSockIn || d.rules.form == formSockIn6 {
		return inetDomain{d}
	}
	return d
}

// ParseAddress implements fabric.Addresser. The host part of the argument of ParseAddress must be
// an IP address of this domain's IP version.
func (d inetDomain) ParseAddress(text string) (first, second []byte, err error) {
	pair, err := inet.ParsePair(text)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range []*[]byte{&first, &second} {
		raw, err := d.rules.form.encode(pair[i])
		if err != nil {
			return nil, nil, err
		}
		canon, err := d.rules.check(raw)
		if err != nil {
			return nil, nil, err
		}
		*name = []byte(canon)
	}
	return first, second, nil
}

// FormatName implements fabric.Addresser.
func (d inetDomain) FormatName(name []byte) string {
	if _, err := d.rules.check(name); err != nil {
		return hex.EncodeToString(name)
	}
	ap, _ := d.rules.form.addrPort(name)
	return ap.String()
}

// Host implements fabric.Addresser.
func (d inetDomain) Host(name []byte) []byte { return d.rules.form.host(name) }

// The method "encode" returns the socket address of an endpoint.
func (f nameForm) encode(ap netip.AddrPort) ([]byte, error) {
	ip := ap.Addr()
	if ip.Is4() != (f == formSockIn) {
		return nil, badName("%v is not of this domain's IP version", ip)
	}
	name := make([]byte, sockInBytes, sockIn6Bytes)
	binary.BigEndian.PutUint16(name[2:], ap.Port())
	if f == formSockIn {
		binary.NativeEndian.PutUint16(name, syscall.AF_INET)
		copy(name[sockInIP:], ip.AsSlice())
		return name, nil
	}
	name = name[:sockIn6Bytes]
	binary.NativeEndian.PutUint16(name, syscall.AF_INET6)
	copy(name[sockIn6IP:], ip.AsSlice())
	return name, nil
}

// The method "host" returns the part of a socket address that identifies its host. A host is
// identified by its IPv4 address (even if mapped into an IPv6 address), or by the first half of its
// IPv6 address. The second half of an IPv6 address does not identify a host, because an IPv6 host
// can choose the second half of its address freely.
func (f nameForm) host(name []byte) []byte {
	const network6Bytes, mappedBytes = 8, 12
	ap, ok := f.addrPort(name)
	switch {
	case !ok:
		return name
	case f == formSockIn:
		return name[sockInIP:][:4]
	case ap.Addr().Is4In6():
		return name[sockIn6IP+mappedBytes:][:4]
	}
	return name[sockIn6IP:][:network6Bytes]
}
