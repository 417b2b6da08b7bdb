package park

import (
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Bell is a file descriptor (eventfd) that any goroutine can make readable, to wake a goroutine
// that waits for the descriptor. Ring and Close are safe for concurrent use. Only the waiting
// goroutine may use Fd and Hush.
type Bell struct {
	mu    sync.Mutex // held while event is written or closed
	event int        // -1 after Close
}

// NewBell returns a Bell whose descriptor becomes readable by Ring, or an error if the system
// cannot create a descriptor. The caller must close the Bell.
func NewBell() (*Bell, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &Bell{event: event}, nil
}

// Fd returns the descriptor of the Bell. A call of Ring makes the descriptor readable, and it stays
// readable until a call of Hush. The Bell owns the descriptor, so that the caller must not close
// it.
func (b *Bell) Fd() int { return b.event }

// Ring makes the descriptor readable. After Close, Ring does nothing.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.event < 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(b.event, one[:])
}

// Hush makes the descriptor unreadable. After several calls of Ring, one call of Hush suffices.
func (b *Bell) Hush() {
	var count [8]byte
	_, _ = unix.Read(b.event, count[:])
}

// Close closes the descriptor. A second Close does nothing.
func (b *Bell) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.event >= 0 {
		unix.Close(b.event)
		b.event = -1
	}
}
