//go:build linux

package udp

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleeper is what Sleep sleeps on: an epoll descriptor with the domain's sockets. It is made by the
// first Arm, which a domain that only Waits never calls.
//
//	Arm    the owner       which sockets: those with receives posted
//	Sleep  any goroutine   ppoll of the bell and of the epoll descriptor, nothing else of the domain
type sleeper struct {
	made  bool
	epoll int32
	socks []sleeperSocket
}

// sleeperSocket is one socket of the set. Its number alone does not tell it: a descriptor that was
// closed leaves the set by itself, and its number comes back.
type sleeperSocket struct {
	sock  *socket
	armed bool
}

// Arm implements fabric.Sleeper.
func (d *domain) Arm() bool {
	s := &d.sleeper
	if d.closed || !s.made && !s.open() {
		return false
	}
	n := 0
	for _, e := range d.endpoints {
		if e.pollable() {
			return false
		}
		for _, sock := range [...]*socket{e.sock, e.direct.sock} {
			if sock == nil {
				continue
			}
			if n == len(s.socks) {
				s.socks = append(s.socks, sleeperSocket{})
			}
			if !s.socks[n].arm(s.epoll, sock, e.rx.top > 0) {
				return false
			}
			n++
		}
	}
	clear(s.socks[n:])
	s.socks = s.socks[:n]
	return true
}

func (s *sleeper) open() bool {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return false // no descriptors left: the caller polls
	}
	s.epoll, s.made = int32(fd), true
	return true
}

// add has what arrives at a new socket end a Sleep that goes on already. If that fails, the next
// Arm does it.
func (s *sleeper) add(sock *socket) {
	if s.made {
		_ = unix.EpollCtl(int(s.epoll), unix.EPOLL_CTL_ADD, sock.fd,
			&unix.EpollEvent{Fd: int32(sock.fd), Events: unix.EPOLLIN})
	}
}

func (s *sleeper) close() {
	if s.made {
		unix.Close(int(s.epoll))
		s.made = false
	}
}

// arm has what arrives at a socket end a Sleep, or not. Of an endpoint that has no receives posted
// nothing could be polled, so that the Sleep after it would end at once.
func (a *sleeperSocket) arm(epoll int32, sock *socket, on bool) bool {
	if a.sock == sock && a.armed == on {
		return true
	}
	ev := unix.EpollEvent{Fd: int32(sock.fd)}
	if on {
		ev.Events = unix.EPOLLIN
	}
	err := unix.EpollCtl(int(epoll), unix.EPOLL_CTL_MOD, sock.fd, &ev)
	if err == unix.ENOENT {
		err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, sock.fd, &ev)
	}
	if err != nil {
		return false
	}
	a.sock, a.armed = sock, on
	return true
}

// Sleep implements fabric.Sleeper.
func (d *domain) Sleep(timeout time.Duration) error {
	fds := [2]unix.PollFd{
		{Fd: int32(d.bell.event), Events: unix.POLLIN},
		{Fd: d.sleeper.epoll, Events: unix.POLLIN},
	}
	var limit unix.Timespec
	ts := &limit
	if timeout < 0 {
		ts = nil
	} else {
		limit = unix.NsecToTimespec(timeout.Nanoseconds())
	}
	_, _, errno := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), 2,
		uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	switch {
	case errno == unix.EINTR:
		return nil
	case errno != 0:
		return newError("ppoll", errno)
	case fds[0].Revents != 0:
		d.bell.hush()
	}
	return nil
}
