package park

import (
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Bell is a descriptor that any goroutine makes readable, to wake who sleeps on it. Ring and Close
// may be called at any time by any goroutine; Fd and Hush are for who sleeps.
type Bell struct {
	mu    sync.Mutex // held while event is written, so that a closed descriptor's number never is
	event int        // -1 after Close
}

// NewBell returns a bell that is silent, or the system's error when it has no descriptor left. Its
// owner closes it.
func NewBell() (*Bell, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &Bell{event: event}, nil
}

// Fd is the descriptor that is readable from a Ring to a Hush; it stays the bell's.
func (b *Bell) Fd() int { return b.event }

// Ring makes the descriptor readable. After Close it does nothing.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.event < 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	// It fails only when the counter is full, and then it rings already.
	_, _ = unix.Write(b.event, one[:])
}

// Hush ends the ringing, however often Ring was called.
func (b *Bell) Hush() {
	var count [8]byte
	_, _ = unix.Read(b.event, count[:])
}

// Close gives the descriptor back. It may be called again.
func (b *Bell) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.event >= 0 {
		unix.Close(b.event)
		b.event = -1
	}
}
