package park

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Timer is the Fd of the event of a Parker's timer, for who looks at its epoll descriptor himself.
const Timer = -1

// Parker parks a goroutine until an epoll descriptor is readable. It belongs to one goroutine at a
// time.
//
// The time of a Wait is kept by a timer of the kernel's in the same epoll. One of Go's would be a
// millisecond late, and one that is put off, as that of a packet which is acknowledged soon, wakes
// its processor at the old time all the same. A Wait that ends before its time leaves the timer as
// it is: to stop it costs as much as to set it, which the next Wait does anyway. If that comes late
// the timer goes off, once; who looks at the descriptor himself stops it before, with Still.
type Parker struct {
	file *os.File
	raw  syscall.RawConn
	look func(fd uintptr) bool
	bell int32
	rung bool // the bell was among what happened
	over bool // the timer was

	mu     sync.Mutex
	timer  int       // its descriptor
	set    bool      // it will go off, or has
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
	timer, err := newTimer(epoll)
	if err != nil {
		file.Close()
		return false
	}
	p.file, p.raw, p.bell, p.timer, p.set = file, raw, bell, timer, false
	p.look = func(fd uintptr) bool {
		n, err := unix.EpollWait(int(fd), p.events[:], 0)
		for i := range max(n, 0) {
			p.rung = p.rung || p.events[i].Fd == p.bell
			p.over = p.over || p.events[i].Fd == Timer
		}
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	}
	return true
}

// Wait parks until something happens, or for a time (negative: no limit), and says whether the bell
// was among it.
func (p *Parker) Wait(timeout time.Duration) (rung bool, err error) {
	p.rung, p.over = false, false
	err = p.begin(timeout)
	if err == nil {
		err = p.raw.Read(p.look)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits, p.sooner, p.until = false, time.Time{}, time.Time{}
	if p.over {
		err = errors.Join(err, p.setTimer())
	}
	return p.rung, err
}

// Still stops the timer that a Wait has left, by which the epoll descriptor would be readable.
func (p *Parker) Still() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set && !p.waits {
		_ = p.setTimer() // to until, which is zero while nobody waits
	}
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
	return p.setTimer()
}

// newTimer makes a timer that an epoll looks at.
func newTimer(epoll int) (int, error) {
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return 0, err
	}
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: Timer}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, timer, &e); err != nil {
		unix.Close(timer)
		return 0, err
	}
	return timer, nil
}

// setTimer sets the timer to until; one that has gone off is silent again. mu is held.
func (p *Parker) setTimer() error {
	var at unix.ItimerSpec // zero: never
	switch {
	case !p.until.IsZero():
		at.Value = unix.NsecToTimespec(max(time.Until(p.until).Nanoseconds(), 1))
	case !p.set:
		return nil
	}
	p.set = !p.until.IsZero()
	return unix.TimerfdSettime(p.timer, 0, &at, nil)
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
		_ = p.setTimer() // as in begin, where it could
	}
}

// Close closes the descriptors. Nobody waits from then on; a Hasten that comes late does nothing.
func (p *Parker) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file.Close()
	unix.Close(p.timer)
	p.timer, p.waits, p.set = -1, false, false
}
