package btl

import (
	"testing"

	"golang.org/x/sys/unix"
)

// threadNanoseconds is the CPU time of the thread.
func threadNanoseconds(b *testing.B) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return ts.Nano()
}
