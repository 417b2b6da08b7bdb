//go:build linux

package udp

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/internal/park"
)

// sleeper is the state of Sleep. Sleep waits for an epoll descriptor, which watches the domain's
// sockets and the descriptor of Wake. The first Arm opens the epoll descriptor.
//
//	Arm    the owner       which sockets, those with receives posted
//	Sleep  any goroutine   parks until the epoll descriptor is readable
//
// The sockets report events to the epoll set only during a Sleep, because a datagram should wake
// a thread only during a Sleep. The sockets are removed from the epoll set after many received
// datagrams, because each socket in the set costs its senders about a hundred nanoseconds per
// packet.
//
// If little is received between two Sleeps for some time, the events of the sockets stay enabled.
// As soon as several datagrams are received between two Sleeps, the events of the sockets are
// disabled again.
type sleeper struct {
	made    bool
	epoll   int
	park    park.Parker
	lingers int // polls with datagrams until the set is emptied, or 0 if it is empty
	calm    int // consecutive Arms after few datagrams; guarded by mu

	mu    sync.Mutex // guards what the polling and the sleeping goroutine share
	on    bool       // a Sleep is armed or in progress
	armed []*socket  // the sockets that end the Sleep
	set   []*socket  // the sockets in the epoll set
}

const (
	// lingersMax is the number of polls with datagrams after which the sockets are removed from
	// the epoll set.
	lingersMax = 64
	// If at most calmFinds polls between two Sleeps find datagrams, the traffic counts as
	// little. calmLeast is the number of consecutive intervals with little traffic after
	// which the events of the sockets stay enabled.
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

// armAll makes datagrams that arrive at the endpoints end the Sleep. armAll returns false if
// there is a datagram to poll, or if a system call fails.
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
		e.direct.both = true
		for _, sock := range [...]*socket{e.sock, e.direct.sock} {
			switch {
			case sock == nil:
			case e.rx.top == 0:
				s.drop(sock) // Poll could receive nothing, and the Sleep would end at once.
			case !s.arm(sock):
				return false
			}
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

// add makes datagrams at a new socket end a Sleep in progress. If add fails, the next Arm adds
// the socket.
func (s *sleeper) add(sock *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made && s.on {
		_ = s.arm(sock)
	}
}

// forget removes a socket that is about to be closed from the epoll set.
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

// received records that a poll has received a datagram. Only the owner may call received.
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

// The method still disables the events of the sockets after a Sleep, for a caller that
// waits for the epoll descriptor itself.
func (s *sleeper) still() {
	s.park.Still()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet()
}

// stir disables the events of the sockets after each Sleep again, because several datagrams are
// received between two Sleeps.
func (s *sleeper) stir() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = 0
	s.quiet()
}

// quiet disables the events of all sockets, unless a Sleep is armed or in progress. The caller must
// hold mu.
func (s *sleeper) quiet() {
	if !s.on {
		s.hushAll()
	}
}

// leave removes the sockets from the epoll set, unless a Sleep is armed or in progress.
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

// arm makes datagrams that arrive at a socket end the Sleep.
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

// hush prevents datagrams that arrive at a socket from ending a Sleep.
func (s *sleeper) hush(sock *socket) {
	if i := slices.Index(s.armed, sock); i >= 0 {
		s.armed = slices.Delete(s.armed, i, i+1)
		_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, sock.fd, &unix.EpollEvent{Fd: int32(sock.fd)})
	}
}

// drop removes a socket from the epoll set. drop is necessary because a socket with disabled
// events ends every Sleep with its errors until a poll reads the errors.
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

// disarm prevents arriving datagrams from ending a Sleep.
func (s *sleeper) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = false
	s.hushAll()
}

// slept records that the Sleep is over.
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
