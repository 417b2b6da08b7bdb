package net

import "syscall"

// The constants in this block are error numbers of Windows sockets.
const (
	wsaMessageSize syscall.Errno = 10040
	wsaInUse       syscall.Errno = 10048
	wsaNoBuffers   syscall.Errno = 10055
)

func setOption(fd uintptr, o option) error {
	return syscall.SetsockoptInt(syscall.Handle(fd), o.level, o.name, o.value)
}

func recvBuffer(fd uintptr) (int, error) {
	return syscall.GetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
}

// The function "portable" converts an error number of Windows sockets to the error number of
// package syscall with the same meaning.
func portable(errno syscall.Errno) syscall.Errno {
	switch errno {
	case wsaMessageSize:
		return syscall.EMSGSIZE
	case wsaInUse:
		return syscall.EADDRINUSE
	case wsaNoBuffers:
		return syscall.ENOBUFS
	}
	return errno
}

func isCut(err error) bool { return errnoOf(err) == syscall.EMSGSIZE }

// dontFragment returns the socket options IP_DONTFRAGMENT or IPV6_DONTFRAG, which disable
// fragmentation.
func dontFragment(version int) []option {
	const dontFragment = 14
	if version == 4 {
		return []option{{syscall.IPPROTO_IP, dontFragment, 1}}
	}
	return []option{{syscall.IPPROTO_IPV6, dontFragment, 1}}
}
