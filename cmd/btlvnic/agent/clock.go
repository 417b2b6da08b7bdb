//go:build linux

package agent

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/waiting"
)

// clockBase is where this process' time axis has its zero.
var clockBase = time.Now()

// idling decides when an idle thread goes to sleep. The next batch of a stream mostly arrives
// before a sleeping thread would have woken up, so the thread polls for a while, and yields the
// processor meanwhile. After a single frame it does not poll, because polling would delay the
// threads that forward the frame.
type idling struct {
	since mono.Time // when it began to look; 0: it does not
	last  mono.Time // when there was something
	dense bool      // the last things came close together

	policy *waiting.Policy // whether others may have the processor
}

func newIdling() idling {
	return idling{policy: waiting.New(waiting.Busy, 0, new(waiting.OSThread), clock())}
}

// spin is how long a thread looks for more. Shorter ones cost a stream a quarter of its rate.
const spin = 80 * time.Microsecond

// over says, after a pass that has done n things, whether it is time to sleep.
func (i *idling) over(n int) bool {
	if i.at(clock(), n) {
		return true
	}
	if n == 0 {
		waiting.CedeBy(i.policy, clock)
	}
	return false
}

// at is over at an instant.
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
