package park

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Timer is the field Fd of an epoll event that comes from the kernel timer of a Parker. A caller
// that polls the epoll descriptor itself recognises events of the Parker's timer by the value
// Timer.
const Timer = -1

// Parker parks a goroutine until an epoll descriptor is readable. A Parker belongs to one goroutine
// at a time.
//
// The Parker adds a kernel timer (timerfd) to the epoll set, which ends a Wait at its deadline.
// With a timer of Go's runtime instead of the kernel timer, a Wait would end up to a millisecond
// after its deadline.
//
// If a Wait returns before its deadline, the Parker does not stop the kernel timer, because the
// next Wait sets the timer anyway. If the next Wait begins after the deadline of the earlier Wait,
// the kernel timer has expired once without need. A caller that polls the epoll descriptor itself,
// without Wait, must first call Still to stop the kernel timer.
type Parker struct {
	file *os.File
	raw  syscall.RawConn
	look func(fd uintptr) bool
	bell int32
	rung bool // the bell was among the events
	over bool // the timer was among the events

	mu     sync.Mutex
	timer  int       // the timer's descriptor
	set    bool      // the timer is set, or has fired
	until  time.Time // deadline of the Wait in progress; zero: never
	waits  bool
	sooner time.Time // latest deadline of the next Wait; zero: no limit
	events [8]unix.EpollEvent
}

// Open gives the Parker the epoll descriptor on whose events Wait waits. After Open, the Parker
// owns the epoll descriptor, and the Parker's method Close closes the descriptor. If the network
// poller of Go's runtime rejects the epoll descriptor, Open closes the descriptor and returns
// false, and otherwise returns true. The argument "bell" is the field Fd of the epoll event that
// Wait reports by its result "rung".
func (p *Parker) Open(epoll int, bell int32) bool {
	if unix.SetNonblock(epoll, true) != nil { // the poller accepts only non-blocking files
		unix.Close(epoll)
		return false
	}
	file := os.NewFile(uintptr(epoll), "epoll")
	raw, err := file.SyscallConn()
	if err != nil || file.SetReadDeadline(time.Time{}) != nil {
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

// Wait parks the goroutine until the epoll descriptor has an event, or until the timeout expires. A
// negative timeout means no limit. The result "rung" of Wait tells whether one of the events came
// from the bell, whose event field Fd was passed to Open.
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

// Still stops the kernel timer of an earlier Wait, because its expiration would make the epoll
// descriptor readable.
func (p *Parker) Still() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set && !p.waits {
		_ = p.setTimer() // stops the timer, because "until" is zero while no goroutine waits
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

// setTimer sets the kernel timer to the deadline in the field "until", or stops the timer if there
// is no deadline, and clears an earlier expiration of the timer. The caller must hold the mutex mu.
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

// Hasten makes the Wait in progress return at the latest when the given timeout has expired. If no
// Wait is in progress, Hasten limits the next Wait to the given timeout. Any goroutine may call
// Hasten.
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
		_ = p.setTimer() // the call also succeeded in begin
	}
}

// Close closes the descriptors of the Parker. After Close, Wait must not be called, and Hasten has
// no effect.
func (p *Parker) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file.Close()
	unix.Close(p.timer)
	p.timer, p.waits, p.set = -1, false, false
}
