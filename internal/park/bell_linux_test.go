package park

import (
	"testing"

	"golang.org/x/sys/unix"
)

// rings reports whether a descriptor is readable.
func rings(t *testing.T, fd int) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// TestBell checks that the bell rings from Ring to Hush, and that a closed bell does not write to a
// reused descriptor.
func TestBell(t *testing.T) {
	b, err := NewBell()
	if err != nil {
		t.Fatal(err)
	}
	if rings(t, b.Fd()) {
		t.Error("a new bell rings")
	}
	b.Hush() // Hush of a silent bell does not block
	b.Ring()
	b.Ring()
	if !rings(t, b.Fd()) {
		t.Error("no sound of two rings")
	}
	b.Hush()
	if rings(t, b.Fd()) {
		t.Error("it rings after Hush")
	}
	fd := b.Fd()
	b.Close()
	next, err := NewBell() // reuses the free number, unless another goroutine was faster
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	b.Ring()
	if next.Fd() == fd && rings(t, fd) {
		t.Error("a closed bell rings another one")
	}
	b.Close()
	next.Ring()
	if !rings(t, next.Fd()) {
		t.Error("the second Close of one bell has closed another")
	}
}
