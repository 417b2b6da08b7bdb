//go:build linux

package udp

import (
	"slices"
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
// Nobody shall be woken for what arrives while nobody sleeps, so the sockets say nothing to the set
// but for a sleep. Each that is in it costs whoever sends there some hundred nanoseconds a packet
// all the same, so they leave it when much was received since the last Arm, and come back with the
// next.
type sleeper struct {
	made    bool
	epoll   int
	park    park.Parker
	lingers int // receipts until the sockets leave the set; 0: none is in it. The owner's

	mu    sync.Mutex // of what the owner and who sleeps share
	on    bool       // a Sleep is to come, or goes on
	armed []int      // descriptors that end it
	set   []int      // those in the set, and some that were closed, which leaves it
}

// lingersMax is how many polls may find something until the sockets leave the set. To leave and to
// come back costs as much as a dozen packets to sockets that are in it.
const lingersMax = 64

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
	s.on, s.lingers = true, lingersMax
	for _, e := range endpoints {
		if e.pollable() {
			return false
		}
		if e.rx.top == 0 {
			continue // Nothing could be polled, so that the Sleep would end at once.
		}
		for _, sock := range [...]*socket{e.sock, e.direct.sock} {
			if sock != nil && !s.arm(sock.fd) {
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

// add has what arrives at a new socket end a Sleep that goes on already, if one does. If that
// fails, the next Arm does it.
func (s *sleeper) add(sock *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made && s.on {
		_ = s.arm(sock.fd)
	}
}

// received notes that a poll has found something. It belongs to the owner.
func (s *sleeper) received() {
	if s.lingers == 0 {
		return
	}
	if s.lingers--; s.lingers == 0 {
		s.leave()
	}
}

// leave takes the sockets out of the set, but not from a Sleep. The number of a closed one may be
// that of another file now, which is in no set.
func (s *sleeper) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on {
		s.lingers = lingersMax
		return
	}
	for _, fd := range s.set {
		_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, fd, nil)
	}
	s.set = s.set[:0]
}

func (s *sleeper) close() {
	if s.made {
		s.park.Close()
		s.made = false
	}
}

// arm has what arrives at a socket end the Sleep. A descriptor that was closed has left the set by
// itself, and its number may have come back.
func (s *sleeper) arm(fd int) bool {
	ev := unix.EpollEvent{Fd: int32(fd), Events: unix.EPOLLIN}
	known := slices.Contains(s.set, fd)
	there := known && unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, fd, &ev) == nil
	if !there && unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &ev) != nil {
		return false
	}
	if !known {
		s.set = append(s.set, fd)
	}
	s.armed = append(s.armed, fd)
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
