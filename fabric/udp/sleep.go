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
//
// To silence each socket behind a sleep, and to have it speak again before the next one, takes two
// system calls. Where again and again no more is received between two sleeps than what has ended
// the first, they are spared: the sockets speak on, until more is received.
type sleeper struct {
	made    bool
	epoll   int
	park    park.Parker
	lingers int // receipts until the sockets leave the set; 0: none is in it. The owner's
	calm    int // Arms in a row before which hardly anything was received. The owner's, under mu

	mu    sync.Mutex // of what the owner and who sleeps share
	on    bool       // a Sleep is to come, or goes on
	armed []*socket  // those that end it
	set   []*socket  // those in the set
}

const (
	// lingersMax is how many polls may find something until the sockets leave the set. To leave and
	// to come back costs as much as a dozen packets to sockets that are in it.
	lingersMax = 64
	// calmFinds is how many polls may find something between two sleeps that follow each other
	// calmly, calmLeast how many such must do so until the sockets speak on.
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

// armAll has what arrives at endpoints end the Sleep. It reports false if there is something to
// poll, or if the system refuses.
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
				s.drop(sock) // Nothing could be polled, so that the Sleep would end at once.
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

// add has what arrives at a new socket end a Sleep that goes on already, if one does. If that
// fails, the next Arm does it.
func (s *sleeper) add(sock *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made && s.on {
		_ = s.arm(sock)
	}
}

// forget notes that a socket is about to be closed, by which it leaves the set. Its number may be
// that of another file then.
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

// received notes that a poll has found something. It belongs to the owner.
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

// still has the descriptor say nothing by what a Sleep that is over has left, for who looks at it
// himself.
func (s *sleeper) still() {
	s.park.Still()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet()
}

// stir ends the calm: more is received between two sleeps.
func (s *sleeper) stir() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = 0
	s.quiet()
}

// quiet has what arrives wake nobody, unless there is a Sleep that it is to end. mu is held.
func (s *sleeper) quiet() {
	if !s.on {
		s.hushAll()
	}
}

// leave takes the sockets out of the set, but not from a Sleep.
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

// arm has what arrives at a socket end the Sleep.
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

// hush has what arrives at a socket wake nobody.
func (s *sleeper) hush(sock *socket) {
	if i := slices.Index(s.armed, sock); i >= 0 {
		s.armed = slices.Delete(s.armed, i, i+1)
		_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, sock.fd, &unix.EpollEvent{Fd: int32(sock.fd)})
	}
}

// drop takes a socket out of the set. One that is hushed has its errors end a Sleep still, and each
// one that comes, as long as nobody polls for them.
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

// disarm has what arrives wake nobody.
func (s *sleeper) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = false
	s.hushAll()
}

// slept notes that nobody sleeps any more.
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
