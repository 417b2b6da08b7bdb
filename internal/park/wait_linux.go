package park

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Parker parks a goroutine until an epoll descriptor is readable. It belongs to one goroutine at a
// time.
type Parker struct {
	file *os.File
	raw  syscall.RawConn
	look func(fd uintptr) bool
	bell int32
	rung bool // the bell was among what happened

	mu     sync.Mutex
	until  time.Time // when a Wait that goes on ends; zero: never
	waits  bool
	sooner time.Time // by when the Wait to come shall end; zero: it may choose
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
	p.rung = false
	err = p.begin(timeout)
	if err == nil {
		err = p.raw.Read(p.look)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	p.mu.Lock()
	p.waits, p.sooner = false, time.Time{}
	p.mu.Unlock()
	return p.rung, err
}

func (p *Parker) begin(timeout time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
	if timeout >= 0 {
		p.until = time.Now().Add(timeout)
	}
	if !p.sooner.IsZero() && (p.until.IsZero() || p.sooner.Before(p.until)) {
		p.until = p.sooner
	}
	p.waits = true
	return p.file.SetReadDeadline(p.until)
}

// Hasten has the Wait that goes on, or else the next one, end after a time at the latest. Any
// goroutine may call it.
func (p *Parker) Hasten(timeout time.Duration) {
	at := time.Now().Add(timeout)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.waits:
		if p.sooner.IsZero() || at.Before(p.sooner) {
			p.sooner = at
		}
	case p.until.IsZero() || at.Before(p.until):
		p.until = at
		_ = p.file.SetReadDeadline(at) // as in begin, where it could
	}
}

// Close closes the descriptor.
func (p *Parker) Close() { p.file.Close() }
