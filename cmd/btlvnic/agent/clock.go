//go:build linux

package agent

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/waiting"
)

// clockBase is the instant at which the time axis of this process begins.
var clockBase = time.Now()

// idling decides when an idle thread goes to sleep. In a stream of frames the next batch mostly
// arrives before a sleeping thread would have woken up. An idle thread therefore polls for a while,
// and yields the processor between two polls. After a single frame an idle thread sleeps at once,
// because polling would delay the threads that forward the frame.
type idling struct {
	since mono.Time // when the thread began to poll; 0: not polling
	last  mono.Time // when the thread last had work
	dense bool      // the latest work came in close succession

	policy *waiting.Policy // whether other threads may have the processor
}

func newIdling() idling {
	return idling{policy: waiting.New(waiting.Busy, 0, new(waiting.OSThread), clock())}
}

// spin is the time for which a thread polls for further frames. If spin is shorter, a stream of
// frames loses a quarter of its rate.
const spin = 80 * time.Microsecond

// over reports whether the thread should sleep, after a poll that has handled n items.
func (i *idling) over(n int) bool {
	if i.at(clock(), n) {
		return true
	}
	if n == 0 {
		waiting.CedeBy(i.policy, clock)
	}
	return false
}

// at is over at the instant now.
func (i *idling) at(now mono.Time, n int) bool {
	if n > 0 {
		i.dense = i.last != 0 && now.Sub(i.last) < spin
		i.last, i.since = now, 0
		return false
	}
	if i.since == 0 {
		i.since = now
	}
	if !i.dense || now.Sub(i.since) >= spin {
		i.since, i.dense = 0, false
		return true
	}
	return false
}

// clock reads the monotonic clock. It is never 0.
func clock() mono.Time { return mono.Time(time.Since(clockBase)) + 1 }
