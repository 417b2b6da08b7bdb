package park

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Parker parks a goroutine until an epoll descriptor is readable. It belongs to one goroutine at a
// time.
type Parker struct {
	file   *os.File
	raw    syscall.RawConn
	look   func(fd uintptr) bool
	bell   int32
	rung   bool // the bell was among what happened
	events [8]unix.EpollEvent
}

// Open parks on an epoll descriptor from now on, which is the Parker's: it is closed if Open
// reports false, which it does when Go's poller does not take it. bell is the Fd of the event that
// a Wait tells apart.
func (p *Parker) Open(epoll int, bell int32) bool {
	if unix.SetNonblock(epoll, true) != nil { // the poller takes files that do not block
		unix.Close(epoll)
		return false
	}
	file := os.NewFile(uintptr(epoll), "epoll")
	raw, err := file.SyscallConn()
	if err != nil || file.SetReadDeadline(time.Time{}) != nil { // one outside has no deadlines
		file.Close()
		return false
	}
	p.file, p.raw, p.bell = file, raw, bell
	p.look = func(fd uintptr) bool {
		n, err := unix.EpollWait(int(fd), p.events[:], 0)
		for i := range max(n, 0) {
			p.rung = p.rung || p.events[i].Fd == p.bell
		}
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	}
	return true
}

// Wait parks until something happens, or for a time (negative: no limit), and says whether the bell
// was among it.
func (p *Parker) Wait(timeout time.Duration) (rung bool, err error) {
	var until time.Time
	if timeout >= 0 {
		until = time.Now().Add(timeout)
	}
	p.rung = false
	err = p.file.SetReadDeadline(until)
	if err == nil {
		err = p.raw.Read(p.look)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return p.rung, err
}

// Close closes the descriptor.
func (p *Parker) Close() { p.file.Close() }
