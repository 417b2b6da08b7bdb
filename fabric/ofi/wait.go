//go:build linux && cgo

package ofi

/*
#cgo noescape gofi_before_sleep
#cgo nocallback gofi_before_sleep
#include "shim.h"
*/
import "C"

import (
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/internal/park"
)

const (
	// shortSleep bounds a sleep while sends are outstanding: their queue wakes nobody.
	shortSleep = time.Millisecond
	// blindSleep bounds a sleep while an endpoint has no wait descriptor (Info.CanWait false).
	blindSleep = 100 * time.Microsecond
)

// Wait implements fabric.Waiter. Where Info.CanWait is false it sleeps for 100 us at most; while
// sends are outstanding on a provider that completes them later, for 1 ms at most.
func (d *domain) Wait(timeout time.Duration) error {
	if d.c == nil {
		return fabric.ErrClosed
	}
	most, ready, err := d.beforeSleep()
	if err != nil || ready {
		return err
	}
	if most >= 0 {
		timeout = atMost(timeout, most)
	}
	return d.bell.wait(timeout)
}

// beforeSleep readies the descriptors for a sleep, and returns how long it may be at most;
// negative: no limit. ready says that there is something to poll.
func (d *domain) beforeSleep() (most time.Duration, ready bool, err error) {
	r := int64(C.gofi_before_sleep(d.c))
	if code := resultCode(r); code != 0 {
		return 0, false, newError(d.info.Provider, resultCall(r), code, strerror)
	}
	flags := resultCount(r)
	switch {
	case flags&C.GOFI_SLEEP_READY != 0:
		return 0, true, nil
	case flags&C.GOFI_SLEEP_BLIND != 0:
		return blindSleep, false, nil
	case flags&C.GOFI_SLEEP_SHORT != 0:
		return shortSleep, false, nil
	}
	return -1, false, nil
}

// Wake implements fabric.Waiter.
func (d *domain) Wake() { d.bell.Ring() }

// atMost bounds a timeout of which a negative one means for ever.
func atMost(timeout, most time.Duration) time.Duration {
	if timeout < 0 || timeout > most {
		return most
	}
	return timeout
}

// bell is the descriptors that a sleep looks at: a Bell for Wake, and those of the endpoints.
// It is looked at with ppoll, not kept in an epoll instance, because that would take part in every
// arrival, of which next to none finds a sleeper.
type bell struct {
	*park.Bell
	fds   []unix.PollFd // of the waiting goroutine; the first is the Bell's
	time  unix.Timespec
	ready ready
}

func newBell() (*bell, error) {
	ring, err := park.NewBell()
	if err != nil {
		return nil, err
	}
	b := &bell{Bell: ring}
	b.watch(ring.Fd())
	return b, nil
}

// watch adds a descriptor.
func (b *bell) watch(fd int) {
	b.fds = append(b.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	b.ready.add(fd)
}

// unwatch removes a descriptor that may be watched.
func (b *bell) unwatch(fd int) {
	b.fds = slices.DeleteFunc(b.fds, func(p unix.PollFd) bool { return p.Fd == int32(fd) })
	b.ready.remove(fd)
}

// wait sleeps until a descriptor is readable, a signal, or the timeout (negative: none).
func (b *bell) wait(timeout time.Duration) error {
	var ts *unix.Timespec
	if timeout >= 0 {
		b.time = unix.NsecToTimespec(timeout.Nanoseconds())
		ts = &b.time
	}
	_, _, errno := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&b.fds[0])),
		uintptr(len(b.fds)), uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	switch errno {
	case 0:
	case unix.EINTR:
		return nil
	default:
		return os.NewSyscallError("ppoll", errno)
	}
	if b.fds[0].Revents != 0 {
		b.Hush()
	}
	return nil
}
