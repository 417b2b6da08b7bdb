//go:build linux

package udp

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/internal/park"
)

// sleeper is what Sleep sleeps on: an epoll descriptor with the domain's sockets and its bell,
// which stands in Go's own poller. The first Arm makes it, which a domain that only Waits never
// calls.
//
//	Arm    the owner       which sockets: those with receives posted
//	Sleep  any goroutine   parks until the epoll descriptor is readable
//
// Nobody shall be woken for what arrives while nobody sleeps, so the sockets are in the set only
// for a sleep.
type sleeper struct {
	made  bool
	epoll int
	park  park.Parker
	socks []sleeperSocket

	mu    sync.Mutex // of what the owner and who sleeps share
	on    bool       // a Sleep is to come, or goes on
	armed []int      // descriptors that end it
}

// sleeperSocket is one socket of the set. Its number alone does not tell it: a descriptor that was
// closed leaves the set by itself, and its number comes back.
type sleeperSocket struct{ sock *socket }

// Arm implements fabric.Sleeper.
func (d *domain) Arm() bool {
	s := &d.sleeper
	if d.closed || !s.made && !s.open(d.bell.Fd()) {
		return false
	}
	s.disarm() // of an Arm that no Sleep has followed
	if !s.armAll(d.endpoints) {
		s.disarm()
		return false
	}
	return true
}

// armAll has what arrives at endpoints end the Sleep. It reports false if there is something to
// poll, or if the system refuses.
func (s *sleeper) armAll(endpoints []*endpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = true
	n := 0
	for _, e := range endpoints {
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
			// Of an endpoint that has no receives posted nothing could be polled, so that the Sleep would
			// end at once.
			if !s.arm(&s.socks[n], sock, e.rx.top > 0) {
				return false
			}
			n++
		}
	}
	clear(s.socks[n:])
	s.socks = s.socks[:n]
	return true
}

func (s *sleeper) open(bell int) bool {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return false // no descriptors left: the caller polls
	}
	if unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, bell,
		&unix.EpollEvent{Fd: int32(bell), Events: unix.EPOLLIN}) != nil {
		unix.Close(fd)
		return false
	}
	if !s.park.Open(fd, int32(bell)) {
		return false
	}
	s.epoll, s.made = fd, true
	return true
}

// add has what arrives at a new socket end a Sleep that goes on already, if one does. If that
// fails, the next Arm does it.
func (s *sleeper) add(sock *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made && s.on && unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, sock.fd,
		&unix.EpollEvent{Fd: int32(sock.fd), Events: unix.EPOLLIN}) == nil {
		s.armed = append(s.armed, sock.fd)
	}
}

func (s *sleeper) close() {
	if s.made {
		s.park.Close()
		s.made = false
	}
}

// arm has what arrives at a socket end the Sleep, or not.
func (s *sleeper) arm(a *sleeperSocket, sock *socket, on bool) bool {
	known := a.sock == sock
	if !on {
		return true
	}
	ev := unix.EpollEvent{Fd: int32(sock.fd), Events: unix.EPOLLIN}
	op := unix.EPOLL_CTL_ADD
	if known {
		op = unix.EPOLL_CTL_MOD
	}
	err := unix.EpollCtl(s.epoll, op, sock.fd, &ev)
	switch err {
	case unix.EEXIST: // added by add, or of another place of the list
		err = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, sock.fd, &ev)
	case unix.ENOENT:
		err = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, sock.fd, &ev)
	}
	if err != nil {
		return false
	}
	a.sock = sock
	s.armed = append(s.armed, sock.fd)
	return true
}

// disarm has what arrives wake nobody. A descriptor that was closed meanwhile is in no set.
func (s *sleeper) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = false
	for _, fd := range s.armed {
		_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Fd: int32(fd)})
	}
	s.armed = s.armed[:0]
}

// Hasten implements fabric.Hastener.
func (d *domain) Hasten(timeout time.Duration) { d.sleeper.park.Hasten(timeout) }

// Sleep implements fabric.Sleeper.
func (d *domain) Sleep(timeout time.Duration) error {
	s := &d.sleeper
	rung, err := s.park.Wait(timeout)
	s.disarm()
	if rung {
		d.bell.Hush()
	}
	return err
}
