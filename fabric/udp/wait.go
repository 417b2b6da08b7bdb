//go:build linux

package udp

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

// Wait implements fabric.Waiter. A datagram for an endpoint without posted receives does not end
// the Wait, because Poll could not receive the datagram.
func (d *domain) Wait(timeout time.Duration) error {
	if d.closed {
		return fabric.ErrClosed
	}
	d.pollFds = append(d.pollFds[:0], unix.PollFd{Fd: int32(d.bell.Fd()), Events: unix.POLLIN})
	for _, e := range d.endpoints {
		if e.pollable() {
			timeout = 0
		}
		if e.rx.top > 0 {
			d.pollFds = append(d.pollFds, unix.PollFd{Fd: int32(e.sock.fd), Events: unix.POLLIN})
		}
	}
	return d.ppoll(timeout)
}

// Wake implements fabric.Waiter.
func (d *domain) Wake() { d.bell.Ring() }

// The method "ppoll" sleeps until a descriptor is readable, a signal arrives, or the timeout is
// over (a negative timeout means no limit).
func (d *domain) ppoll(timeout time.Duration) error {
	var ts *unix.Timespec
	if timeout >= 0 {
		d.pollTime = unix.NsecToTimespec(timeout.Nanoseconds())
		ts = &d.pollTime
	}
	_, _, errno := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&d.pollFds[0])),
		uintptr(len(d.pollFds)), uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	switch errno {
	case 0:
	case unix.EINTR:
		return nil
	default:
		return newError("ppoll", errno)
	}
	if d.pollFds[0].Revents != 0 {
		d.bell.Hush()
	}
	return nil
}
