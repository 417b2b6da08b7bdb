package waiting

import (
	"encoding/binary"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The type netpoller makes Go's scheduler check its network poller. By itself, the scheduler checks
// the network poller when it finds no goroutine to run, and otherwise every 10 ms. Without
// netpoller, a thread that yields in a loop would delay goroutines that wait for a socket by up to
// 10 ms.
type netpoller struct {
	mu     sync.Mutex // held while a goroutine asks
	file   *os.File   // an event descriptor registered with the poller
	raw    syscall.RawConn
	event  func(fd uintptr) bool
	rung   bool
	opened bool
}

var poller netpoller

// The method ask parks the calling goroutine on a descriptor that becomes readable as soon as the
// goroutine waits. When Go's scheduler then has no goroutine to run, it checks its network poller,
// which returns this goroutine and all other goroutines whose descriptors are ready. If another
// goroutine is in the method ask, or if the process has no free descriptor, ask does nothing.
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
	_ = p.raw.Read(p.event) // Read fails only on a closed file, and this file is never closed.
}

// The method open creates the descriptor on which the method ask parks. This descriptor is open
// until the process ends.
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
			_, _ = unix.Read(int(fd), count[:]) // The read cannot fail: the descriptor is readable.
			return true
		}
		p.rung = true
		binary.NativeEndian.PutUint64(count[:], 1)
		_, err := unix.Write(int(fd), count[:])
		return err != nil
	}
}

func askNetpoller() { poller.ask() }
