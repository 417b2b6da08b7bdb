//go:build linux

package udp

import (
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

const (
	// wantRecvBytes is the size of the receive buffer that is requested if the caller has not set
	// RecvBufferBytes.
	wantRecvBytes = 4 << 20
	// wantSendBytes is the requested size of a socket's send buffer. A send buffer of 1 MiB has room
	// for several messages of 64 KiB, and limits the number of bytes that wait for a slow network
	// device.
	wantSendBytes = 1 << 20
	// maxSocketBytes is the largest size of a socket buffer that the provider requests, because the
	// kernel stores twice the requested size in a 32-bit integer.
	maxSocketBytes = 1<<30 - 1
)

// openSocket opens a socket, sets its options and buffer sizes, and binds the socket to a local
// address.
func openSocket(l *inet.Local, o Options, recvBytes int) (*socket, error) {
	family := unix.AF_INET
	if l.Version() == 6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, sysError("socket", err)
	}
	s := &socket{fd: fd}
	if err := s.setUp(l, o, recvBytes); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return s, nil
}

// The type "socket" is an open UDP socket with its name, the kernel features that it uses, and the
// size of its receive buffer.
type socket struct {
	fd        int
	name      netip.AddrPort
	have      features
	recvBytes int // the receive buffer as counted by the kernel
	sendBytes int // the send buffer as counted by the kernel
}

func (s *socket) close() error { return sysError("close", unix.Close(s.fd)) }

func (s *socket) setUp(l *inet.Local, o Options, recvBytes int) error {
	if err := dontFragment(s.fd, l.Version()); err != nil {
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
	if s.sendBytes, err = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF); err != nil {
		return sysError("getsockopt", err)
	}
	s.recvBytes, err = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return sysError("getsockopt", err)
}

// dontFragment disables IP fragmentation of the datagrams that the socket sends. The kernel ignores
// ICMP reports about the path MTU for these datagrams.
func dontFragment(fd, version int) error {
	if version == 4 {
		return sysError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER,
			unix.IP_PMTUDISC_PROBE))
	}
	for _, opt := range []struct{ name, value int }{
		{unix.IPV6_V6ONLY, 1},
		{unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
		{unix.IPV6_DONTFRAG, 1},
	} {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, opt.name, opt.value); err != nil {
			return sysError("setsockopt", err)
		}
	}
	return nil
}

// setBuffer requests a size for a socket buffer. If the process is privileged, setBuffer can exceed
// the system's limit for socket buffers. setBuffer ignores errors, because the caller reads the
// granted size afterwards.
func setBuffer(fd, option, force, sizeBytes int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, sizeBytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, sizeBytes)
	}
}

// The type "features" records which features of the kernel a socket uses, and for each feature that
// the socket does not use, the reason.
type features struct {
	gso, gro, mmsg          bool
	noGSO, noGRO, noMmsgWhy string
	// recvBytes and sendBytes are the kernel's default sizes of a socket's receive and send buffers.
	recvBytes, sendBytes int
}

// The function "detect" determines which features the kernel has, and turns on the coalescing of
// received datagrams (UDP_GRO).
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
	s, err := openSocket(&probed, o, 0)
	if err != nil {
		return features{}, fmt.Errorf("%s: %w", l.Addr, err)
	}
	s.have.recvBytes, s.have.sendBytes = s.recvBytes, s.sendBytes
	return s.have, s.close()
}

// The constants in this block are the kernel's SK_MEMINFO_DROPS and SK_MEMINFO_VARS.
const (
	memInfoDrops = 8
	memInfoWords = 9
)

// The method "drops" returns how many packets the kernel has dropped at the socket, or 0 if the
// kernel does not report this number (before Linux 4.12). Several datagrams that the kernel has
// coalesced (UDP_GRO) count as one packet.
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

// The functions recvMsg, recvMmsg and their counterparts for sending make raw system calls. A raw
// system call does not inform Go's scheduler, and therefore the number of messages in one call is
// limited.

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
