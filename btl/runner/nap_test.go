package runner

import (
	"runtime"
	"testing"
	"time"
)

// Who naps sleeps as long as asked, and leaves Go's only processor to others meanwhile.
func TestNapper(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const naps, each, turnsLeast = 20, 200 * time.Microsecond, 10
	done := make(chan struct{})
	go func() {
		defer close(done)
		var n napper
		defer n.close()
		for range naps {
			begin := time.Now()
			if n.nap(each); time.Since(begin) < each {
				t.Errorf("a nap of %v took %v", each, time.Since(begin))
			}
		}
	}()
	turns := 0
	for over := false; !over; turns++ {
		runtime.Gosched()
		select {
		case <-done:
			over = true
		default:
		}
	}
	if turns < naps*turnsLeast {
		t.Errorf("the other goroutine ran %d times during %d naps", turns, naps)
	}
	var n napper
	n.close()
}
