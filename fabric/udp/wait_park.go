//go:build linux

package udp

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// parker parks a goroutine until an epoll descriptor is readable.
type parker struct {
	file   *os.File
	raw    syscall.RawConn
	look   func(fd uintptr) bool
	bell   int
	rung   bool // the bell was among what happened
	events [8]unix.EpollEvent
}

// open says whether Go's poller has taken the descriptor.
func (p *parker) open(file *os.File, bell int) bool {
	raw, err := file.SyscallConn()
	if err != nil || file.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	p.file, p.raw, p.bell = file, raw, bell
	p.look = func(fd uintptr) bool {
		n, err := unix.EpollWait(int(fd), p.events[:], 0)
		for i := range max(n, 0) {
			p.rung = p.rung || p.events[i].Fd == int32(p.bell)
		}
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	}
	return true
}

// wait parks until something happens, or for a time (negative: no limit).
func (p *parker) wait(timeout time.Duration) error {
	var until time.Time
	if timeout >= 0 {
		until = time.Now().Add(timeout)
	}
	p.rung = false
	err := p.file.SetReadDeadline(until)
	if err == nil {
		err = p.raw.Read(p.look)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// Sleep implements fabric.Sleeper.
func (d *domain) Sleep(timeout time.Duration) error {
	s := &d.sleeper
	err := s.park.wait(timeout)
	s.disarm()
	if s.park.rung {
		d.bell.hush()
	}
	return err
}
