//go:build unix

package net

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// A sender sends datagrams through a socket and never blocks. If the socket's send buffer is full,
// the method "send" of a sender returns EAGAIN.
type sender struct {
	raw  syscall.RawConn
	once func(fd uintptr) bool // sends b to to; made only once, as making it allocates memory
	b    []byte
	to   syscall.Sockaddr
	err  error
}

func newSender(conn *net.UDPConn) (*sender, error) {
	raw, err := conn.SyscallConn()
	s := &sender{raw: raw}
	s.once = func(fd uintptr) bool {
		for {
			s.err = syscall.Sendto(int(fd), s.b, 0, s.to)
			if !errors.Is(s.err, syscall.EINTR) {
				return true // RawConn does not wait
			}
		}
	}
	return s, err
}

// The method "send" sends a datagram, or returns EAGAIN if the socket's send buffer is full.
func (s *sender) send(b []byte, p *peer) error {
	if p.sockaddr == nil {
		p.sockaddr = sockaddrOf(p.to)
	}
	s.b, s.to = b, p.sockaddr
	if err := s.raw.Write(s.once); err != nil {
		return err
	}
	return s.err
}

// sockaddrOf converts an address to the type that system calls need.
func sockaddrOf(to netip.AddrPort) syscall.Sockaddr {
	if to.Addr().Is4() {
		return &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	sa := &syscall.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	if zone := to.Addr().Zone(); zone != "" {
		if dev, err := net.InterfaceByName(zone); err == nil {
			sa.ZoneId = uint32(dev.Index)
		} else if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			sa.ZoneId = uint32(n)
		}
	}
	return sa
}
