//go:build linux

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The Go declarations of the kernel's structures have integers in place of pointers. Without
// pointers, the garbage collector does not scan the structures, and writes to the structures need
// no write barriers. Go aligns the fields of the kernel's structures in the same way as C.

type iovec struct {
	base, len uintptr
}

type msghdr struct {
	name    uintptr
	nameLen uint32
	iov     uintptr
	iovLen  uintptr
	control uintptr
	ctlLen  uintptr
	flags   int32
}

type mmsghdr struct {
	msghdr
	size uint32 // bytes sent or received
}

// A "cmsg" is a socket control message that contains one number, which has 16 bits for UDP_SEGMENT
// and 32 bits for UDP_GRO.
type cmsg struct {
	len   uintptr
	level int32
	kind  int32
	value [8]byte
}

const (
	cmsgHeaderBytes = unsafe.Sizeof(uintptr(0)) + 8
	cmsgBytes       = unsafe.Sizeof(cmsg{})
)

// If the size of a Go structure differs from the size of the kernel's structure, an array length in
// this block is negative, so that the package does not compile.
type (
	_ [unsafe.Sizeof(msghdr{}) - unix.SizeofMsghdr]byte
	_ [unix.SizeofMsghdr - unsafe.Sizeof(msghdr{})]byte
	_ [unsafe.Sizeof(iovec{}) - unix.SizeofIovec]byte
)

// segmentControl returns the control message (UDP_SEGMENT) that makes the kernel split a message
// into datagrams. The method setSegment sets the size of the datagrams into which the kernel splits
// a message.
func segmentControl() cmsg {
	return cmsg{len: cmsgHeaderBytes + 2, level: unix.SOL_UDP, kind: unix.UDP_SEGMENT}
}

func (c *cmsg) setSegment(sizeBytes int) {
	*(*uint16)(unsafe.Pointer(&c.value)) = uint16(sizeBytes)
}

// The method "segment" returns the size of the datagrams that the kernel has coalesced into a
// message, or 0 if the message is a single datagram. The argument "ctlLen" of the method "segment"
// is the length of the control data that the kernel has written.
func (c *cmsg) segment(ctlLen uintptr) int {
	if ctlLen < cmsgHeaderBytes+4 || c.level != unix.SOL_UDP || c.kind != unix.UDP_GRO {
		return 0
	}
	return int(*(*int32)(unsafe.Pointer(&c.value)))
}

// sockaddr holds a sockaddr_in or sockaddr_in6.
type sockaddr [unix.SizeofSockaddrInet6]byte

// makeSockaddr converts an IP address and port to the kernel's socket address.
func makeSockaddr(ap netip.AddrPort, scope uint32) (sa sockaddr, lenBytes uint32) {
	binary.BigEndian.PutUint16(sa[2:], ap.Port())
	if ap.Addr().Is4() {
		binary.NativeEndian.PutUint16(sa[:], unix.AF_INET)
		ip := ap.Addr().As4()
		copy(sa[4:], ip[:])
		return sa, unix.SizeofSockaddrInet4
	}
	binary.NativeEndian.PutUint16(sa[:], unix.AF_INET6)
	ip := ap.Addr().As16()
	copy(sa[8:], ip[:])
	if ap.Addr().IsLinkLocalUnicast() {
		binary.NativeEndian.PutUint32(sa[24:], scope)
	}
	return sa, unix.SizeofSockaddrInet6
}

func (sa *sockaddr) addrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(sa[2:])
	switch binary.NativeEndian.Uint16(sa[:]) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[4:8])), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(sa[8:24])), port)
	}
	return netip.AddrPort{}
}
