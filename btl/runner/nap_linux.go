package runner

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The function "nap" sleeps for about d in a system call.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&ts, nil) // an interrupted sleep is good enough
}

// A napper lets a goroutine sleep for less than a millisecond. A napper waits for a timer
// descriptor (timerfd) in the Go runtime's poller, so that the sleep occupies no thread. A napper
// belongs to one goroutine. The zero value of a napper is ready for use.
type napper struct {
	file *os.File
	raw  syscall.RawConn
	at   unix.ItimerSpec
	set  func(fd uintptr)
	read func(fd uintptr) bool
	none bool // no timer descriptor could be opened
}

// The method "nap" sleeps for about d, which must be positive.
func (n *napper) nap(d time.Duration) {
	if n.file == nil && !n.none {
		n.none = !n.open()
	}
	if n.none {
		time.Sleep(d)
		return
	}
	n.at.Value = unix.NsecToTimespec(d.Nanoseconds())
	err := n.raw.Control(n.set)
	if err == nil {
		err = n.raw.Read(n.read)
	}
	if err != nil {
		time.Sleep(d)
	}
}

func (n *napper) open() bool {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return false
	}
	n.file = os.NewFile(uintptr(fd), "timerfd")
	if n.raw, err = n.file.SyscallConn(); err != nil || n.file.SetReadDeadline(time.Time{}) != nil {
		n.close() // the Go runtime cannot poll the descriptor
		return false
	}
	n.set = func(fd uintptr) { _ = unix.TimerfdSettime(int(fd), 0, &n.at, nil) }
	n.read = func(fd uintptr) bool {
		var count [8]byte
		got, err := unix.Read(int(fd), count[:])
		return got > 0 || !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	}
	return true
}

// close closes the timer descriptor.
func (n *napper) close() {
	if n.file != nil {
		n.file.Close()
		n.file = nil
	}
}
