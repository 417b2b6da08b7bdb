//go:build linux

package udp

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/internal/park"
)

// The type "sleeper" is the state of the methods Arm and Sleep. Sleep waits for events on an epoll
// descriptor, which watches the domain's sockets and the descriptor that Wake makes readable. The
// first call of Arm or ReadyFd opens the epoll descriptor.
//
//	Arm    the owner       which sockets, those with receives posted
//	Sleep  any goroutine   parks until the epoll descriptor is readable
//
// As a rule, the events of the domain's sockets are enabled in the epoll set only during a Sleep,
// because outside a Sleep no thread waits for the epoll descriptor. When many polls have received
// datagrams without a Sleep, the sockets are removed from the epoll set, because epoll costs the
// senders to a watched socket about 100 ns per packet.
//
// While few datagrams arrive between one Sleep and the next, the sockets' epoll events remain
// enabled after each Sleep. As soon as more than calmFinds polls have received datagrams since the
// latest Sleep, the domain disables the sockets' epoll events, and from then on disables the events
// after each Sleep.
type sleeper struct {
	made    bool
	epoll   int
	park    park.Parker
	lingers int // polls with datagrams until the epoll set is emptied; 0: it is empty
	calm    int // consecutive Arms after few datagrams; guarded by mu

	mu    sync.Mutex // guards what the polling and the sleeping goroutine share
	on    bool       // a Sleep is armed or in progress
	armed []*socket  // the sockets that end the Sleep
	set   []*socket  // the sockets in the epoll set
}

const (
	// After lingersMax polls that have received datagrams since the latest Sleep, the sockets are
	// removed from the epoll set.
	lingersMax = 64
	// The time between one Sleep and the next counts as an interval with little traffic if at most
	// calmFinds polls receive datagrams during this time. After calmLeast consecutive intervals with
	// little traffic, the sockets' epoll events remain enabled after each Sleep.
	calmFinds = 1
	calmLeast = 4
)

// Arm implements fabric.Sleeper.
func (d *domain) Arm() bool {
	s := &d.sleeper
	if d.closed || !s.made && !s.open(d.bell.Fd()) {
		return false
	}
	if !s.armAll(d.endpoints) {
		s.disarm()
		return false
	}
	return true
}

// armAll makes sure that a datagram that arrives at one of the endpoints ends the next Sleep. The
// result of armAll is false if Poll has a datagram to report or if a system call fails, and
// otherwise true.
func (s *sleeper) armAll(endpoints []*endpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lingers >= lingersMax-calmFinds {
		s.calm++
	} else {
		s.calm = 0
	}
	s.on, s.lingers = true, lingersMax
	for _, e := range endpoints {
		if e.pollable() {
			return false
		}
		switch {
		case e.rx.top == 0:
			s.drop(e.sock) // Poll could receive nothing, and the Sleep would end at once.
		case !s.arm(e.sock):
			return false
		}
	}
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

// The method "forget" removes a socket that is about to be closed from the epoll set.
func (s *sleeper) forget(sock *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(sock)
}

func (s *sleeper) unlist(sock *socket) {
	is := func(other *socket) bool { return other == sock }
	s.armed = slices.DeleteFunc(s.armed, is)
	s.set = slices.DeleteFunc(s.set, is)
}

// The method "received" records that a poll has received a datagram. Only the goroutine that uses
// the domain may call the method "received".
func (s *sleeper) received() {
	if s.lingers == 0 {
		return
	}
	s.lingers--
	switch {
	case s.lingers == 0:
		s.leave()
	case s.calm > 0 && s.lingers < lingersMax-calmFinds:
		s.stir()
	}
}

// The method "still" stops the timer of an earlier Sleep, and disables the sockets' events. ReadyFd
// calls the method "still", because the timer and the events would make the epoll descriptor
// readable before ArmReady.
func (s *sleeper) still() {
	s.park.Still()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet()
}

// The method "stir" disables the sockets' epoll events, and ends the state in which the events stay
// enabled after a Sleep, because several polls have received datagrams since the latest Sleep.
func (s *sleeper) stir() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = 0
	s.quiet()
}

// The method "quiet" disables the events of all sockets, unless a Sleep is armed or in progress.
// The caller must hold the mutex "mu".
func (s *sleeper) quiet() {
	if !s.on {
		s.hushAll()
	}
}

// The method "leave" removes all sockets from the epoll set, unless a Sleep is armed or in
// progress.
func (s *sleeper) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on {
		s.lingers = lingersMax
		return
	}
	for _, sock := range s.set {
		_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, sock.fd, nil)
	}
	s.set, s.armed = s.set[:0], s.armed[:0]
}

func (s *sleeper) close() {
	if s.made {
		s.park.Close()
		s.made = false
	}
}

// The method "arm" enables the events of a socket, so that a datagram that arrives at the socket
// ends the Sleep.
func (s *sleeper) arm(sock *socket) bool {
	if slices.Contains(s.armed, sock) {
		return true
	}
	ev := unix.EpollEvent{Fd: int32(sock.fd), Events: unix.EPOLLIN}
	op := unix.EPOLL_CTL_MOD
	if !slices.Contains(s.set, sock) {
		op = unix.EPOLL_CTL_ADD
	}
	if unix.EpollCtl(s.epoll, op, sock.fd, &ev) != nil {
		return false
	}
	if op == unix.EPOLL_CTL_ADD {
		s.set = append(s.set, sock)
	}
	s.armed = append(s.armed, sock)
	return true
}

// The method "hush" disables the events of a socket, so that a datagram that arrives at the socket
// does not end a Sleep.
func (s *sleeper) hush(sock *socket) {
	if i := slices.Index(s.armed, sock); i >= 0 {
		s.armed = slices.Delete(s.armed, i, i+1)
		_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, sock.fd, &unix.EpollEvent{Fd: int32(sock.fd)})
	}
}

// The method "drop" removes a socket from the epoll set. Disabling the socket's events would not be
// enough, because epoll always reports a socket error, which would end every Sleep until a poll
// reads the error.
func (s *sleeper) drop(sock *socket) {
	if slices.Contains(s.set, sock) {
		_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, sock.fd, nil)
		s.unlist(sock)
	}
}

func (s *sleeper) hushAll() {
	for len(s.armed) > 0 {
		s.hush(s.armed[len(s.armed)-1])
	}
}

// The method "disarm" undoes Arm, so that arriving datagrams do not end a Sleep.
func (s *sleeper) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = false
	s.hushAll()
}

// The method "slept" records that the Sleep in progress is over.
func (s *sleeper) slept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = false
	if s.calm < calmLeast {
		s.hushAll()
	}
}

// Hasten implements fabric.Hastener.
func (d *domain) Hasten(timeout time.Duration) { d.sleeper.park.Hasten(timeout) }

// Sleep implements fabric.Sleeper.
func (d *domain) Sleep(timeout time.Duration) error {
	s := &d.sleeper
	rung, err := s.park.Wait(timeout)
	s.slept()
	if rung {
		d.bell.Hush()
	}
	return err
}
