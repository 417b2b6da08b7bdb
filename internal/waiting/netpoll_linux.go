package waiting

import (
	"encoding/binary"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// netpoller has Go's scheduler ask its network poller. The scheduler does so by itself only when it
// finds nothing to run, or every 10 ms: a thread that yields in a loop keeps goroutines that wait
// for a socket from running that long.
type netpoller struct {
	mu     sync.Mutex // held while one asks
	file   *os.File   // of an event descriptor that the poller knows
	raw    syscall.RawConn
	event  func(fd uintptr) bool
	rung   bool
	opened bool
}

var poller netpoller

// ask parks the calling goroutine on a descriptor that becomes readable as it begins to wait. So
// the scheduler finds nothing to run, asks the poller, and gets back this goroutine with all that
// wait for something that is ready. It does nothing where another goroutine is in it, or the system
// has no descriptor left.
func (p *netpoller) ask() {
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if !p.opened {
		p.open()
	}
	if p.file == nil {
		return
	}
	p.rung = false
	_ = p.raw.Read(p.event) // It fails only where the file is closed, which it never is.
}

// open makes the descriptor. It stays until the process ends.
func (p *netpoller) open() {
	p.opened = true
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return
	}
	file := os.NewFile(uintptr(fd), "netpoller")
	if p.raw, err = file.SyscallConn(); err != nil {
		_ = file.Close() // nothing was written
		return
	}
	p.file = file
	p.event = func(fd uintptr) bool {
		var count [8]byte
		if p.rung {
			_, _ = unix.Read(int(fd), count[:]) // It cannot fail: it is readable.
			return true
		}
		p.rung = true
		binary.NativeEndian.PutUint64(count[:], 1)
		_, err := unix.Write(int(fd), count[:])
		return err != nil
	}
}

func askNetpoller() { poller.ask() }
