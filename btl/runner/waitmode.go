package runner

import (
	"sync"

	"gobtl/internal/waiting"
)

// Waiting is the way in which a goroutine that drives the module waits for packets.
type Waiting = waiting.Mode

// The ways to wait.
const (
	// WaitAdaptive polls for about as long as a wake-up takes, and then sleeps. If several polling
	// periods in succession have ended without a packet, WaitAdaptive polls for a shorter time.
	WaitAdaptive = waiting.Adaptive
	// WaitBusy always polls and never sleeps, which gives the lowest latency but occupies one CPU.
	WaitBusy = waiting.Busy
	// WaitEvent sleeps at once, without polling first, which uses the least CPU time. Each wake-up
	// takes about 30 us.
	WaitEvent = waiting.Event
)

// ParseWaiting returns the Waiting with the name "adaptive", "busy" or "event". For any other name,
// ParseWaiting returns an error.
func ParseWaiting(name string) (Waiting, error) { return waiting.ParseMode(name) }

// Waits contains counters that describe how goroutines that drive the module have waited. The field
// Yields counts yields of polling goroutines, and the field Crowded counts how often the polling
// goroutine noticed that another thread uses its CPU. The field Apart counts how often polling
// goroutines stopped yielding because another thread on their CPU computes. The field Stolen counts
// how often the host of this virtual machine took the CPU away.
type Waits = waiting.Counts

// The type "policies" contains the policies by which the goroutines of calls and the watcher (the
// Runner's own goroutine) wait for packets. Only the goroutine that owns the module may use the
// policies. The method "counts" is safe for concurrent use.
type policies struct {
	each [2]*waiting.Policy // of the goroutines of calls, and of the watcher

	mu    sync.Mutex
	noted waiting.Counts // guarded by mu
}

// The method "of" returns the policy for the goroutine of a call, or for the watcher if c is nil.
func (p *policies) of(c *call) *waiting.Policy {
	if c == nil {
		return p.each[1]
	}
	return p.each[0]
}

// The method "note" updates the counters that the method "counts" returns. The caller must own the
// module.
func (p *policies) note() {
	w := p.each[0].Counts()
	w.Add(p.each[1].Counts())
	p.mu.Lock()
	p.noted = w
	p.mu.Unlock()
}

// The method "counts" returns the sum of the counters of both policies at the latest call of the
// method "note".
func (p *policies) counts() waiting.Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.noted
}
