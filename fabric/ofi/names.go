//go:build linux && cgo

package ofi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"

	"gobtl/fabric"
)

// nameForm is the format of the endpoint names of one address family.
type nameForm uint8

const (
	formOpaque  nameForm = iota // bytes that only the provider understands
	formSockIn                  // struct sockaddr_in
	formSockIn6                 // struct sockaddr_in6
	formString                  // text that ends with a zero byte
)

const (
	sockInBytes  = 16
	sockIn6Bytes = 28
	// A socket address contains the IP address at sockInIP (IPv4) or sockIn6IP (IPv6).
	sockInIP  = 4
	sockIn6IP = 8
)

// The nameRules determine which byte strings are valid endpoint names. This package must check
// endpoint names, because endpoint names can come from the network, and libfabric does not check
// endpoint names.
type nameRules struct {
	form  nameForm
	bytes int    // exact length, 0 while unknown
	scope uint32 // IPv6 scope of this host's link-local address, or 0
}

// The method "check" returns the canonical form of a valid endpoint name. All names of one endpoint
// have the same canonical form.
func (r nameRules) check(name []byte) (string, error) {
	if len(name) == 0 || len(name) > fabric.MaxNameBytes || r.bytes != 0 && len(name) != r.bytes {
		return "", badName("%d bytes long, want %s", len(name), r.want())
	}
	switch r.form {
	case formSockIn, formSockIn6:
		return r.checkSocket(name)
	case formString:
		if i := bytes.IndexByte(name, 0); i != len(name)-1 || i == 0 {
			return "", badName("not one text that ends with its zero byte")
		}
	case formOpaque: // only the provider can tell
	}
	return string(name), nil
}

func (r nameRules) want() string {
	if r.bytes != 0 {
		return fmt.Sprint(r.bytes)
	}
	return fmt.Sprintf("1 to %d", fabric.MaxNameBytes)
}

// checkSocket refuses a socket address that cannot belong to a single peer, such as a multicast
// address.
func (r nameRules) checkSocket(name []byte) (string, error) {
	want := uint16(syscall.AF_INET)
	if r.form == formSockIn6 {
		want = syscall.AF_INET6
	}
	if family := binary.NativeEndian.Uint16(name); family != want {
		return "", badName("address family %d, want %d", family, want)
	}
	ap, ok := r.form.addrPort(name)
	if !ok {
		return "", badName("malformed socket address")
	}
	if ap.Port() == 0 {
		return "", badName("port 0")
	}
	ip := ap.Addr().Unmap()
	if ip.IsUnspecified() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return "", badName("%v is not the address of one host", ip)
	}
	canon := append([]byte(nil), name...)
	if r.form == formSockIn {
		clear(canon[8:]) // sin_zero
		return string(canon), nil
	}
	clear(canon[4:8]) // sin6_flowinfo
	scope := uint32(0)
	if ip.IsLinkLocalUnicast() {
		scope = r.scope
	}
	binary.NativeEndian.PutUint32(canon[24:], scope)
	return string(canon), nil
}

// addrPort decodes a socket address without its zone.
func (f nameForm) addrPort(name []byte) (netip.AddrPort, bool) {
	switch {
	case f == formSockIn && len(name) >= 8:
		ip := netip.AddrFrom4([4]byte(name[sockInIP:8]))
		return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(name[2:])), true
	case f == formSockIn6 && len(name) >= sockIn6Bytes:
		ip := netip.AddrFrom16([16]byte(name[sockIn6IP:24]))
		return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(name[2:])), true
	}
	return netip.AddrPort{}, false
}

// scopeOf returns the IPv6 scope (interface number) in a socket address of this host.
func (f nameForm) scopeOf(name []byte) uint32 {
	if f == formSockIn6 && len(name) >= sockIn6Bytes {
		return binary.NativeEndian.Uint32(name[24:])
	}
	return 0
}

func badName(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{fabric.ErrBadName}, args...)...)
}
