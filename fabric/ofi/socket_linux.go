//go:build linux && cgo

package ofi

import (
	"bufio"
	"fmt"
	"io"
	"math/bits"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The following constants determine the size that a datagram occupies in a socket's receive buffer
// (skb->truesize).
const (
	skbSharedBytes = 320
	skbHeadBytes   = 28 + 64 // UDP and IP headers, and room for the link's
	skbBytes       = 256
	minSkbBytes    = 1024
)

// truesizeBytes returns the size that a datagram occupies in a socket's receive buffer. If the size
// that the datagram occupies differs between kernel versions, truesizeBytes returns the largest of
// these sizes.
func truesizeBytes(payload int) int {
	n := max(payload+skbHeadBytes+skbSharedBytes, minSkbBytes)
	return 1<<bits.Len(uint(n-1)) + skbBytes
}

// socketCapacity returns how many datagrams of "mtu" bytes a socket's receive buffer can always
// hold. The argument "buffer" of socketCapacity is the size that getsockopt returns for SO_RCVBUF.
// In its calculation, socketCapacity uses only three quarters of the buffer size, because Linux can
// delay the release of the memory of read datagrams (udp_rmem_release).
func socketCapacity(buffer, mtu int) int {
	return max((buffer-buffer/4)/truesizeBytes(mtu), 1)
}

// findSocket returns the descriptor of the UDP socket that libfabric's udp provider has bound to
// the local address "want". findSocket first searches the descriptors that the endpoint's wait
// descriptor watches, and then all descriptors of the process. The argument "waitFd" of findSocket
// is the endpoint's wait descriptor (an epoll instance), or -1.
func findSocket(waitFd int, want netip.AddrPort) (int, error) {
	for _, fd := range watched(waitFd) {
		if isSocket(fd, want) {
			return fd, nil
		}
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1, err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && isSocket(fd, want) {
			return fd, nil
		}
	}
	return -1, fmt.Errorf("no UDP socket with local address %v in this process", want)
}

// The function "watched" lists the descriptors that an epoll instance watches (proc(5), fdinfo).
func watched(epollFd int) []int {
	if epollFd < 0 {
		return nil
	}
	f, err := os.Open("/proc/self/fdinfo/" + strconv.Itoa(epollFd))
	if err != nil {
		return nil
	}
	defer f.Close()
	return parseFdinfo(f)
}

func parseFdinfo(r io.Reader) []int {
	var fds []int
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "tfd:")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		if fd, err := strconv.Atoi(fields[0]); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

func isSocket(fd int, want netip.AddrPort) bool {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_DGRAM {
		return false
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return false
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)) == want
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)) == want
	}
	return false
}

// sizeSocket requests a receive buffer of "ask" bytes, and returns the size that the kernel has
// granted. If the argument "ask" is 0 or negative, sizeSocket does not change the receive buffer.
// Linux grants twice the requested size, but at most twice net.core.rmem_max, because Linux counts
// its own structures and the datagrams' bytes in the buffer size.
func sizeSocket(fd, ask int) (int, error) {
	if ask > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, ask); err != nil {
			return 0, os.NewSyscallError("setsockopt", err)
		}
	}
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return n, os.NewSyscallError("getsockopt", err)
}

func tryBind(local netip.AddrPort, scope uint32) error {
	ip, port := local.Addr(), int(local.Port())
	var family int
	var sa unix.Sockaddr
	if ip.Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
	} else {
		family, sa = unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: ip.As16(), ZoneId: scope}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	return os.NewSyscallError("bind", unix.Bind(fd, sa))
}
