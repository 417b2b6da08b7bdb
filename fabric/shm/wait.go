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

// Wait implements fabric.Waiter. It says in each ring that it sleeps, looks once more, and sleeps:
// on those words for a moment if that pays, else, or then, on the sockets, on which peers knock
// that have read so. Rings of endpoints that have no
// receives posted do not end it: nothing that arrives there could be polled.
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

// somethingToPoll says whether a poll would find something, or send what waits.
func (d *domain) somethingToPoll() bool {
	for _, e := range d.endpoints {
		if e != nil && (e.pollable() || e.hasRoom()) {
			return true
		}
	}
	return false
}

// retryPause is after what pause something is tried again that nothing tells the time for;
// negative: there is nothing.
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

// sayAsleep sets the flags by which peers know that this side must be woken.
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

// A peer that is too busy to be reached is tried again after pauses that grow from retryPause on,
// doubling this often; and so is taking peers in when there was no descriptor.
const (
	retryPause      = time.Millisecond
	retryPausesLog2 = 6
)

// sooner is the shorter of a timeout (negative: none) and a pause.
func sooner(timeout, pause time.Duration) time.Duration {
	if timeout < 0 {
		return pause
	}
	return min(timeout, pause)
}

// tryAgain has what is tried again after a pause tried by the next poll.
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

// olderThan says whether an instant of the system's clock is so long ago.
func olderThan(t time.Time, age time.Duration) bool { return time.Since(t) > age }

// hasRoom says whether something that waits could be sent now.
func (e *endpoint) hasRoom() bool {
	return slices.ContainsFunc(e.stalled, (*outLink).hasRoom)
}

// hasRoom is the same of one link, on which something waits.
func (l *outLink) hasRoom() bool {
	if l.fd < 0 {
		return false
	}
	s := l.waiting.Front()
	_, ok := l.ring.room(recordBytes(uint64(s.Len) + uint64(s.RegionLen)))
	return ok
}

// sleep waits until something happens on a descriptor, a signal, or the timeout (negative: none).
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
