//go:build linux

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

const (
	// wantRecvBytes is the requested size of the receive buffer if the caller names no size.
	wantRecvBytes = 4 << 20
	// wantSendBytes is the requested size of the send buffer. This size has room for several
	// messages of 64 KiB, and limits the number of bytes that wait for a slow device.
	wantSendBytes = 1 << 20
	// maxSocketBytes is the largest size of a socket buffer that can be requested, because the
	// kernel stores twice this size in a number of 32 bits.
	maxSocketBytes = 1<<30 - 1
)

// openSocket opens a socket bound to a local address, and sets its options and the sizes of its
// buffers.
func openSocket(l *inet.Local, o Options, recvBytes int, pathSize bool) (*socket, error) {
	return newSocket(l, func(s *socket) error { return s.setUp(l, o, recvBytes, pathSize) })
}

func newSocket(l *inet.Local, setUp func(*socket) error) (*socket, error) {
	family := unix.AF_INET
	if l.Version() == 6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, sysError("socket", err)
	}
	s := &socket{fd: fd}
	if err := setUp(s); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return s, nil
}

// socket is an open socket with its name, features and receive buffer.
type socket struct {
	fd        int
	name      netip.AddrPort
	have      features
	recvBytes int // the receive buffer as counted by the kernel
}

func (s *socket) close() error { return sysError("close", unix.Close(s.fd)) }

func (s *socket) setUp(l *inet.Local, o Options, recvBytes int, pathSize bool) error {
	if err := dontFragment(s.fd, l.Version(), pathSize); err != nil {
		return err
	}
	if err := unix.Bind(s.fd, bindAddress(l)); err != nil {
		return sysError("bind", err)
	}
	sa, err := unix.Getsockname(s.fd)
	if err != nil {
		return sysError("getsockname", err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		s.name = netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		s.name = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	s.have = detect(s.fd, o)
	setBuffer(s.fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, wantSendBytes)
	if recvBytes == 0 {
		recvBytes = wantRecvBytes
	}
	if recvBytes > 0 {
		setBuffer(s.fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, min(recvBytes, maxSocketBytes))
	}
	s.recvBytes, err = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return sysError("getsockopt", err)
}

// dontFragment disables fragmentation of datagrams. Unless pathSize is set, dontFragment also makes
// the kernel ignore ICMP reports about the path MTU.
func dontFragment(fd, version int, pathSize bool) error {
	of4, of6 := unix.IP_PMTUDISC_PROBE, unix.IPV6_PMTUDISC_PROBE
	if pathSize {
		of4, of6 = unix.IP_PMTUDISC_DO, unix.IPV6_PMTUDISC_DO
	}
	if version == 4 {
		return sysError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER,
			of4))
	}
	for _, opt := range []struct{ name, value int }{
		{unix.IPV6_V6ONLY, 1},
		{unix.IPV6_MTU_DISCOVER, of6},
		{unix.IPV6_DONTFRAG, 1},
	} {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, opt.name, opt.value); err != nil {
			return sysError("setsockopt", err)
		}
	}
	return nil
}

// setBuffer requests a size for a socket buffer, even above the system's limit if the process has
// the permission. setBuffer ignores errors, because the caller reads the granted size afterwards.
func setBuffer(fd, option, force, sizeBytes int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, sizeBytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, sizeBytes)
	}
}

// The type features says which features of the kernel a socket uses, and gives the reasons why
// others are not used.
type features struct {
	gso, gro, mmsg          bool
	noGSO, noGRO, noMmsgWhy string
	// recvBytes and sendBytes are the default sizes of the socket's buffers, as the kernel reports
	// them.
	recvBytes, sendBytes int
}

// The function detect determines which features the kernel has, and turns on the coalescing of
// received datagrams.
func detect(fd int, o Options) features {
	var f features
	f.gso, f.noGSO = true, ""
	switch _, err := unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT); {
	case o.NoGSO:
		f.gso, f.noGSO = false, "by option"
	case err != nil:
		f.gso, f.noGSO = false, err.Error()
	}
	if o.NoGRO {
		f.noGRO = "by option"
	} else if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1); err != nil {
		f.noGRO = err.Error()
	} else {
		f.gro = true
	}
	if o.NoMmsg {
		f.noMmsgWhy = "by option"
		return f
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), 0, 0, 0, 0, 0)
	if f.mmsg = errno == 0; !f.mmsg {
		f.noMmsgWhy = errno.Error()
	}
	return f
}

func (f *features) attrs() []fabric.Attr {
	state := func(on bool, why string) string {
		if on {
			return "on"
		}
		return "off: " + why
	}
	return []fabric.Attr{
		{Name: "gso", Value: state(f.gso, f.noGSO)},
		{Name: "gro", Value: state(f.gro, f.noGRO)},
		{Name: "mmsg", Value: state(f.mmsg, f.noMmsgWhy)},
		{Name: "path mtu", Value: "not told by the system: datagrams stay whole, and who sends probes"},
	}
}

func probe(l *inet.Local, o Options) (features, error) {
	probed := *l
	probed.Port = 0 // the caller may use the port itself
	s, err := openSocket(&probed, o, 0, false)
	if err != nil {
		return features{}, fmt.Errorf("%s: %w", l.Addr, err)
	}
	s.have.recvBytes = s.recvBytes
	s.have.sendBytes, err = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	return s.have, errors.Join(sysError("getsockopt", err), s.close())
}

// The constants below are the kernel's SK_MEMINFO_DROPS and SK_MEMINFO_VARS.
const (
	memInfoDrops = 8
	memInfoWords = 9
)

// drops returns how many packets the kernel has dropped at the socket. If the kernel does not
// report dropped packets (versions below Linux 4.12), drops returns 0. Several datagrams that
// arrive as one packet, as with UDP_GRO, are counted once.
func (s *socket) drops() uint64 {
	var words [memInfoWords]uint32
	sizeBytes := uint32(unsafe.Sizeof(words))
	_, _, errno := syscall.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_SOCKET,
		unix.SO_MEMINFO, uintptr(unsafe.Pointer(&words)), uintptr(unsafe.Pointer(&sizeBytes)), 0)
	if errno != 0 {
		return 0
	}
	return uint64(words[memInfoDrops])
}

func sysError(op string, err error) error {
	if errno, ok := err.(unix.Errno); ok { //nolint:errorlint // unix returns them bare
		return newError(op, errno)
	}
	return err
}

// The functions below make the system calls that send and receive datagrams. A call does not take
// long, because the size of a batch is limited.

func sendTo(fd int, v *iovec, m *msghdr) unix.Errno {
	_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), v.base, v.len, 0, m.name,
		uintptr(m.nameLen))
	return errno
}

func sendMsg(fd int, m *msghdr) unix.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), 0)
	return errno
}

func sendMmsg(fd int, m []mmsghdr) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), 0, 0, 0)
	return int(n), errno
}

func recvMsg(fd int, m *mmsghdr) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), 0)
	if errno != 0 {
		return 0, errno
	}
	m.size = uint32(n)
	return 1, 0
}

func recvMmsg(fd int, m []mmsghdr) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), 0, 0, 0)
	return int(n), errno
}
