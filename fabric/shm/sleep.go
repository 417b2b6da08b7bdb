//go:build linux

package shm

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/internal/park"
)

// The type "sleeper" is the state of the methods Arm and Sleep. Sleep waits for events on a
// duplicate of the domain's epoll descriptor, which is registered with the network poller of Go's
// runtime. The first call of Arm creates the duplicate of the epoll descriptor.
//
//	Arm    the owner       says in the rings that this side sleeps, and looks once more
//	Sleep  any goroutine   parks until a peer knocks, one comes or goes, or the bell rings
//
// The sleep flag of a ring causes at most one wake-up, because the peer clears the flag when it
// wakes this process.
type sleeper struct {
	made  bool
	park  park.Parker
	asked bool // the Sleep ends early, for a retry of a failed connection
	most  time.Duration
	// The field "sleeping" is true from Arm to the end of the Sleep. A goroutine that consumes an
	// event of the epoll descriptor while the field "sleeping" is true must end the Sleep, because the
	// consumed event can no longer wake the Sleep.
	sleeping atomic.Bool
}

// Arm implements fabric.Sleeper.
func (d *domain) Arm() bool {
	s := &d.sleeper
	if d.closed || !s.made && !s.open(d.loop.epoll) {
		return false
	}
	s.sleeping.Store(false) // for an Arm without a Sleep
	if s.asked {
		s.asked = false
		d.tryAgain() // the next poll makes the retries
		return false
	}
	d.loop.tend() // pending events would end the Sleep
	d.sayAsleep(onSocket)
	if d.somethingToPoll() {
		d.sayAsleep(awake)
		return false
	}
	s.most = d.retryPause()
	s.asked = s.most >= 0
	s.sleeping.Store(true)
	return true
}

// Hasten implements fabric.Hastener.
func (d *domain) Hasten(timeout time.Duration) { d.sleeper.park.Hasten(timeout) }

// Sleep implements fabric.Sleeper.
func (d *domain) Sleep(timeout time.Duration) error {
	s := &d.sleeper
	if s.most >= 0 {
		timeout = sooner(timeout, s.most)
	}
	rung, err := s.park.Wait(timeout)
	s.sleeping.Store(false)
	if rung {
		d.hush()
	}
	if err != nil {
		return &fabric.Error{Provider: ProviderName, Op: "epoll_wait", Text: err.Error()}
	}
	return nil
}

func (s *sleeper) open(epoll int) bool {
	fd, err := unix.FcntlInt(uintptr(epoll), unix.F_DUPFD_CLOEXEC, 0)
	s.made = err == nil && s.park.Open(fd, slotBell)
	return s.made
}

func (s *sleeper) close() {
	if s.made {
		s.park.Close()
		s.made = false
	}
}

// The method "still" stops the kernel timer that was set for the deadline of an earlier Sleep.
func (s *sleeper) still() {
	if s.made {
		s.park.Still()
	}
}

// An endpoint calls the method "stalled" when a Post after Arm finds that a ring is full, so that
// the Sleep in progress ends when the ring has room again.
func (s *sleeper) stalled(l *outLink) {
	if !s.sleeping.Load() {
		return
	}
	if l.fd >= 0 {
		atomic.StoreUint32(l.ring.wants(), onSocket)
		if !l.hasRoom() {
			return // the peer will wake the Sleep
		}
	}
	s.tell(l.ep.domain.bell) // the ring has room already, or the link needs a retry after a pause
}

// An endpoint that had no posted receive buffer calls the method "receives" after its Recv, so that
// the Sleep in progress ends when a datagram arrives at the endpoint.
func (s *sleeper) receives(e *endpoint) {
	if !s.sleeping.Load() || len(e.posted) == 0 {
		return
	}
	for _, q := range e.rings {
		atomic.StoreUint32(q.ring.sleeps(), onSocket)
	}
	if e.pollable() {
		s.tell(e.domain.bell)
	}
}

// The method "tell" ends a Sleep in progress, by ringing the park.Bell of the domain.
func (s *sleeper) tell(b *park.Bell) {
	if s.sleeping.Load() {
		b.Ring()
	}
}
