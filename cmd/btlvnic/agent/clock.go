//go:build linux

package agent

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/waiting"
)

// clockBase is the zero of the times that this process uses.
var clockBase = time.Now()

// idling decides when a thread without work goes to sleep. A thread in a stream of frames polls for
// the time spin before it sleeps, because the next batch mostly arrives within that time. After a
// single frame a thread sleeps at once, because polling would delay the threads that forward the
// frame.
type idling struct {
	since mono.Time // when the thread began to poll; 0: not polling
	last  mono.Time // when the thread last had work
	dense bool      // the latest work came in close succession

	policy *waiting.Policy // whether other threads may have the processor
}

func newIdling() idling {
	return idling{policy: waiting.New(waiting.Busy, 0, new(waiting.OSThread), clock())}
}

// spin is the time for which a thread without work polls for further frames. A shorter time would
// reduce the rate of a stream of frames by a quarter.
const spin = 80 * time.Microsecond

// The method over reports whether the thread should sleep, after a poll that has returned n packets
// or frames.
func (i *idling) over(n int) bool {
	if i.at(clock(), n) {
		return true
	}
	if n == 0 {
		waiting.CedeBy(i.policy, clock)
	}
	return false
}

// The method at works like the method over, at the time given by the argument now.
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

// clock reads the monotonic clock, which is never 0.
func clock() mono.Time { return mono.Time(time.Since(clockBase)) + 1 }
