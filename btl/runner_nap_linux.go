package btl

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps for about d. (Go's own timers take a millisecond at least where nothing else runs.)
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&ts, nil) // an interrupted nap is one, too
}
