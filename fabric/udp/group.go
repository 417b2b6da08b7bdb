//go:build linux

package udp

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

var _ fabric.Grouper = (*domain)(nil)

// parseGroup parses the address of a multicast group, which must have this domain's IP version.
// parseGroup refuses link-local IPv6 groups, because a link-local address is ambiguous without a
// zone.
func (d *domain) parseGroup(group string) (netip.AddrPort, error) {
	ap, err := netip.ParseAddrPort(group)
	ip := ap.Addr()
	switch {
	case err != nil || ap.Port() == 0:
		return ap, inet.BadName("%q is no group: write 239.1.2.3:5000 or [ff08::1234]:5000", group)
	case !ip.IsMulticast() || ip.Is4In6():
		return ap, inet.BadName("%v is no multicast address", ip)
	case ip.Is4() != (d.local.Version() == 4):
		return ap, inet.BadName("%v is not of IP version %d", ip, d.local.Version())
	case ip.Is6() && (ip.IsLinkLocalMulticast() || ip.Zone() != ""):
		return ap, inet.BadName("%v is a group of one link", ip)
	}
	return ap, nil
}

// InsertGroup implements fabric.Grouper. Datagrams to a group are sent through the network device
// of the domain. Datagrams to a group have a TTL of 1 (the kernel's default for multicast), and
// therefore no router forwards these datagrams. The members of the group on this host and on the
// hosts of the local network receive the datagrams.
func (d *domain) InsertGroup(group string) (fabric.Addr, error) {
	if d.closed {
		return fabric.AddrUnknown, fabric.ErrClosed
	}
	ap, err := d.parseGroup(group)
	if err != nil {
		return fabric.AddrUnknown, err
	}
	for _, e := range d.endpoints {
		if err := e.sock.multicastBy(&d.local); err != nil {
			return fabric.AddrUnknown, err
		}
	}
	d.groups = true
	return d.peers.insert(ap, scope(&d.local))
}

// OpenGroup implements fabric.Grouper.
func (d *domain) OpenGroup(group string, cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	if d.closed {
		return nil, fabric.ErrClosed
	}
	ap, err := d.parseGroup(group)
	if err != nil {
		return nil, err
	}
	return d.openEndpoint(cfg, func() (*socket, error) {
		return openGroupSocket(&d.local, ap, d.options, cfg.RecvBufferBytes)
	})
}

// openGroupSocket opens a socket that is bound to a multicast group, and joins the group on the
// network device of a local address.
func openGroupSocket(
	l *inet.Local, group netip.AddrPort, o Options, recvBytes int,
) (*socket, error) {
	family := unix.AF_INET
	if l.Version() == 6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, sysError("socket", err)
	}
	s := &socket{fd: fd}
	at := *l
	at.Addr, at.Port = group.Addr(), group.Port()
	err = sysError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	if err == nil {
		err = s.setUp(&at, o, recvBytes)
	}
	if err == nil {
		err = s.joinGroup(l, group.Addr())
	}
	if err == nil {
		err = s.multicastBy(l)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return s, nil
}

// joinGroup makes the socket a member of a multicast group on the network device of a local
// address. The socket receives datagrams only to this group, and not to groups that only other
// sockets of this host have joined.
func (s *socket) joinGroup(l *inet.Local, group netip.Addr) error {
	if group.Is4() {
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0); err != nil {
			return sysError("setsockopt", err)
		}
		return sysError("join group", unix.SetsockoptIPMreqn(s.fd, unix.IPPROTO_IP,
			unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(l.Index)}))
	}
	return sysError("join group", unix.SetsockoptIPv6Mreq(s.fd, unix.IPPROTO_IPV6,
		unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(l.Index)}))
}

// multicastBy makes the socket send multicast datagrams through the network device of a local
// address.
func (s *socket) multicastBy(l *inet.Local) error {
	if l.Version() == 4 {
		return sysError("setsockopt", unix.SetsockoptIPMreqn(s.fd, unix.IPPROTO_IP,
			unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(l.Index)}))
	}
	return sysError("setsockopt", unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6,
		unix.IPV6_MULTICAST_IF, l.Index))
}
