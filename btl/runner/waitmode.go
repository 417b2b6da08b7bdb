package runner

import "gobtl/internal/waiting"

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
