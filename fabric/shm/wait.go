//go:build linux

package shm

import (
	"slices"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

// Wait implements fabric.Waiter. Wait sets the sleep flag in each ring, checks all rings once more,
// and sleeps. If the previous Wait took less than napMost, Wait first sleeps for at most napMost in
// a futex call on the sleep flags, and then waits for an event on the sockets. A peer that writes
// to or reads from a ring whose sleep flag is set wakes this process. A datagram for an endpoint
// without posted receives does not end the Wait, because Poll could not receive the datagram.
func (d *domain) Wait(timeout time.Duration) error {
	if d.closed {
		return fabric.ErrClosed
	}
	p, began := &d.napper, time.Now()
	if p.pays && !p.off && timeout != 0 {
		over := false
		if timeout, over = d.nap(began, timeout); over {
			return nil
		}
	}
	d.sleeper.still()
	d.sayAsleep(onSocket)
	if d.somethingToPoll() {
		timeout = 0
	}
	if pause := d.retryPause(); pause >= 0 {
		timeout = sooner(timeout, pause)
	}
	errno := d.loop.sleep(timeout)
	p.pays = time.Since(began) < p.most
	d.sayAsleep(awake)
	d.tryAgain()
	if d.loop.tend() {
		d.hush()
	}
	if errno != 0 && errno != unix.EINTR {
		return &fabric.Error{
			Provider: ProviderName, Op: "ppoll", Errno: int(errno), Text: errno.Error(),
		}
	}
	return nil
}

func (d *domain) somethingToPoll() bool {
	for _, e := range d.endpoints {
		if e != nil && (e.pollable() || e.hasRoom()) {
			return true
		}
	}
	return false
}

// If a peer is too busy for a connection, or if this process lacks a descriptor for a new peer, the
// domain must try again after a pause. The domain gets no event when a busy peer can accept a
// connection again. retryPause returns the time until the next attempt to connect to a peer, or a
// negative time if no attempt is pending.
func (d *domain) retryPause() time.Duration {
	pause := time.Duration(-1)
	for _, e := range d.endpoints {
		if e == nil {
			continue
		}
		for _, l := range e.stalled {
			if l.fd < 0 {
				pause = sooner(pause, retryPause<<min(l.tries, retryPausesLog2))
			}
		}
	}
	if d.loop.deaf > 0 {
		pause = sooner(pause, retryPause<<retryPausesLog2)
	}
	return pause
}

// sayAsleep sets the sleep flags in all rings of the domain. The value of a sleep flag tells the
// peer whether this process sleeps, and how to wake it.
func (d *domain) sayAsleep(how uint32) {
	for _, e := range d.endpoints {
		if e == nil {
			continue
		}
		if len(e.posted) > 0 {
			for _, q := range e.rings {
				atomic.StoreUint32(q.ring.sleeps(), how)
			}
		}
		for _, l := range e.stalled {
			if l.fd >= 0 {
				atomic.StoreUint32(l.ring.wants(), how)
			}
		}
	}
}

// After a failed connection to a busy peer, the domain connects again after a pause, which is
// retryPause at first and doubles after each failure, up to retryPausesLog2 times.
const (
	retryPause      = time.Millisecond
	retryPausesLog2 = 6
)

func sooner(timeout, pause time.Duration) time.Duration {
	if timeout < 0 {
		return pause
	}
	return min(timeout, pause)
}

// tryAgain makes the next poll retry all failed connections, and makes the next call of "tend"
// watch the listening socket again.
func (d *domain) tryAgain() {
	for _, e := range d.endpoints {
		if e == nil {
			continue
		}
		for _, l := range e.stalled {
			l.skips = 0
		}
	}
	d.loop.deaf = min(d.loop.deaf, 1)
}

func olderThan(t time.Time, age time.Duration) bool { return time.Since(t) > age }

func (e *endpoint) hasRoom() bool {
	return slices.ContainsFunc(e.stalled, (*outLink).hasRoom)
}

// hasRoom reports whether the ring has room for the oldest waiting datagram of the link. The caller
// must check that the link has a waiting datagram.
func (l *outLink) hasRoom() bool {
	if l.fd < 0 {
		return false
	}
	s := l.waiting.Front()
	_, ok := l.ring.room(recordBytes(uint64(s.Len) + uint64(s.RegionLen)))
	return ok
}

// The method "sleep" waits for an event on a descriptor of the domain, a signal, or the end of the
// timeout (a negative timeout means no limit).
func (o *loop) sleep(timeout time.Duration) syscall.Errno {
	o.pollFd = unix.PollFd{Fd: int32(o.epoll), Events: unix.POLLIN}
	var ts *unix.Timespec
	if timeout >= 0 {
		o.pollTime = unix.NsecToTimespec(timeout.Nanoseconds())
		ts = &o.pollTime
	}
	_, _, errno := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&o.pollFd)), 1,
		uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	return errno
}

// Wake implements fabric.Waiter.
func (d *domain) Wake() {
	d.bell.Ring()
	d.napper.ring()
}
