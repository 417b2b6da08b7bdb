package stream

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestJumps checks that a datagram takes about the same CPU time however far it is ahead of those
// before, in rings of any shape. CPU time does not depend on other programs that use the CPU.
func TestJumps(t *testing.T) {
	const datagrams = 500
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, g := range []Geometry{{1000, 4, 16}, {16, 4096, 1}, {1000, 4, 2048}} {
		cost := func(jump uint64) time.Duration {
			best := time.Hour
			for range 5 {
				ring, err := NewRing(g, nil)
				if err != nil {
					t.Fatal(err)
				}
				a := newAssembler(ring, 0, 1, g.MessageBytes)
				a.overwrite = true
				payload := make([]byte, g.MessageBytes)
				for i := range uint64(100) { // the first ones may spend what is saved
					a.take(i*jump, 0, payload, false, false)
				}
				began := threadTime(t)
				for i := range uint64(datagrams) {
					a.take((100+i)*jump, 0, payload, false, false)
				}
				best = min(best, (threadTime(t)-began)/datagrams)
			}
			return best
		}
		order := cost(1)
		for _, jump := range []uint64{100, 5000, 1 << 17} {
			if c := cost(jump); c > 60*order+2*time.Microsecond {
				t.Errorf("%+v: a datagram costs %v, with jumps of %d %v", g, order, jump, c)
			}
		}
	}
}

// threadTime is the CPU time that the calling thread has used.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
