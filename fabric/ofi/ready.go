//go:build linux && cgo

package ofi

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The type "ready" holds the epoll descriptor that ReadyFd returns, which watches the same
// descriptors as Wait. The epoll descriptor is opened only at the first call of ReadyFd, because an
// open epoll instance costs time for every arriving datagram.
type ready struct {
	epoll int // 0: there is none
	err   error
}

// ReadyFd implements fabric.Readier.
func (d *domain) ReadyFd() (int, error) {
	b := d.bell
	if b.ready.epoll > 0 || b.ready.err != nil {
		return b.ready.epoll, b.ready.err
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("epoll_create1", err)
	}
	b.ready.epoll = fd
	for _, p := range b.fds {
		b.ready.add(int(p.Fd))
	}
	return fd, b.ready.err
}

func (r *ready) add(fd int) {
	if r.epoll == 0 || r.err != nil {
		return
	}
	ev := unix.EpollEvent{Fd: int32(fd), Events: unix.EPOLLIN}
	r.err = os.NewSyscallError("epoll_ctl", unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &ev))
}

// The method "remove" makes the epoll descriptor stop watching the descriptor "fd".
func (r *ready) remove(fd int) {
	if r.epoll > 0 {
		_ = unix.EpollCtl(r.epoll, unix.EPOLL_CTL_DEL, fd, nil)
	}
}

func (r *ready) close() {
	if r.epoll > 0 {
		unix.Close(r.epoll)
		r.epoll = 0
	}
}

// ArmReady implements fabric.Readier. If Info.CanWait is false, the result of ArmReady is at most
// 100 us. While libfabric has uncompleted sends, the result of ArmReady is at most 1 ms.
func (d *domain) ArmReady() time.Duration {
	if d.c == nil || d.bell.ready.err != nil {
		return 0
	}
	most, ready, err := d.beforeSleep()
	if err != nil || ready { // the next Poll returns the error
		return 0
	}
	return most
}

// DisarmReady implements fabric.Readier.
func (d *domain) DisarmReady() {
	if d.c != nil && d.bell.ready.epoll > 0 {
		d.bell.Hush()
	}
}
