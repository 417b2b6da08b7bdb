//go:build linux && cgo

package ofi

/*
#cgo noescape gofi_before_sleep
#cgo nocallback gofi_before_sleep
#include "shim.h"
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
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
	r := int64(C.gofi_before_sleep(d.c))
	if code := resultCode(r); code != 0 {
		return newError(d.info.Provider, resultCall(r), code, strerror)
	}
	flags := resultCount(r)
	switch {
	case flags&C.GOFI_SLEEP_READY != 0:
		return nil
	case flags&C.GOFI_SLEEP_BLIND != 0:
		timeout = atMost(timeout, blindSleep)
	case flags&C.GOFI_SLEEP_SHORT != 0:
		timeout = atMost(timeout, shortSleep)
	}
	return d.bell.wait(timeout)
}

// Wake implements fabric.Waiter.
func (d *domain) Wake() { d.bell.ring() }

// atMost bounds a timeout of which a negative one means for ever.
func atMost(timeout, most time.Duration) time.Duration {
	if timeout < 0 || timeout > most {
		return most
	}
	return timeout
}

// bell is an epoll instance over the endpoints' wait descriptors, and an eventfd for Wake.
type bell struct {
	epoll  int
	events [8]unix.EpollEvent // of the waiting goroutine; their number does not matter

	mu    sync.Mutex // held while event is written, so that a closed descriptor's number never is
	event int        // -1 after close
}

func newBell() (*bell, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	b := &bell{epoll: epoll, event: event}
	if err := b.watch(event); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// watch adds a descriptor; level-triggered, because who is woken need not poll all that is there.
func (b *bell) watch(fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, fd, &ev))
}

// unwatch removes a descriptor, which must still be open. If that fails it was not watched.
func (b *bell) unwatch(fd int) { _ = unix.EpollCtl(b.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// ring makes the present or the next wait return.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.event < 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	// It fails only when the counter is full, and then it rings already.
	_, _ = unix.Write(b.event, one[:])
}

// wait sleeps until a descriptor is readable, a signal, or the timeout (negative: none).
func (b *bell) wait(timeout time.Duration) error {
	n, err := b.epollWait(timeout)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("epoll_wait", err)
	}
	for _, ev := range b.events[:n] {
		if int(ev.Fd) == b.event {
			var count [8]byte
			_, _ = unix.Read(b.event, count[:]) // back to silence
		}
	}
	return nil
}

// epollWait sleeps with the resolution of nanoseconds where the kernel can (Linux 5.11), else of
// milliseconds, rounded up: too late is a delay, too early a busy loop.
func (b *bell) epollWait(timeout time.Duration) (int, error) {
	var ts *unix.Timespec
	if timeout >= 0 {
		v := unix.NsecToTimespec(timeout.Nanoseconds())
		ts = &v
	}
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(b.epoll),
		uintptr(unsafe.Pointer(&b.events[0])), uintptr(len(b.events)),
		uintptr(unsafe.Pointer(ts)), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.ENOSYS, unix.EPERM: // an old kernel, or a container whose filter is older than the call
		return unix.EpollWait(b.epoll, b.events[:], milliseconds(timeout))
	}
	return 0, errno
}

// milliseconds rounds a timeout up for epoll_wait.
func milliseconds(timeout time.Duration) int {
	if timeout < 0 {
		return -1
	}
	const most = 1 << 30 // about twelve days: waiting again is cheap
	whole := timeout / time.Millisecond
	if timeout%time.Millisecond != 0 {
		whole++
	}
	return int(min(whole, most))
}

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.event < 0 {
		return
	}
	unix.Close(b.event)
	unix.Close(b.epoll)
	b.event = -1
}
