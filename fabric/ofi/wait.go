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
	// shortSleep is the longest sleep while libfabric has uncompleted sends, because the completion of
	// a send does not wake a sleeping thread.
	shortSleep = time.Millisecond
	// blindSleep is the longest sleep if an endpoint has no wait descriptor (Info.CanWait is
	// false).
	blindSleep = 100 * time.Microsecond
)

// Wait implements fabric.Waiter. If Info.CanWait is false, Wait sleeps for at most 100 us. While
// libfabric has uncompleted sends, Wait sleeps for at most 1 ms.
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

// beforeSleep prepares the descriptors for a sleep. The result "most" of beforeSleep is the longest
// permitted sleep (a negative time means no limit). The result "ready" of beforeSleep is true if a
// completion is ready to be polled, so that the caller must not sleep.
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

// atMost returns "timeout" or "most", whichever is lower. A negative argument "timeout" means no
// limit, and the argument "most" must not be negative.
func atMost(timeout, most time.Duration) time.Duration {
	if timeout < 0 || timeout > most {
		return most
	}
	return timeout
}

// The type "bell" holds the descriptors for which a sleeping thread waits, including the descriptor
// that Wake makes readable. A thread in Wait sleeps in the system call ppoll and not in epoll,
// because an epoll instance would cost time for every arriving datagram.
type bell struct {
	*park.Bell
	fds   []unix.PollFd // of the waiting goroutine; the first is for Wake
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

func (b *bell) watch(fd int) {
	b.fds = append(b.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	b.ready.add(fd)
}

func (b *bell) unwatch(fd int) {
	b.fds = slices.DeleteFunc(b.fds, func(p unix.PollFd) bool { return p.Fd == int32(fd) })
	b.ready.remove(fd)
}

// The method "wait" sleeps until a descriptor is readable, a signal arrives, or the timeout is over
// (a negative timeout means no limit).
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
