package runner

import "gobtl/internal/waiting"

// Waiting is the way in which a goroutine that drives the module waits for packets.
type Waiting = waiting.Mode

// The ways to wait.
const (
	// WaitAdaptive polls for about the time that a wake-up costs, and then sleeps. After several
	// polling times without a packet, WaitAdaptive reduces the polling time.
	WaitAdaptive = waiting.Adaptive
	// WaitBusy always polls, which gives the lowest latency and occupies a CPU.
	WaitBusy = waiting.Busy
	// WaitEvent sleeps without polling first, which uses the least CPU time. Each wake-up takes about
	// 30 us.
	WaitEvent = waiting.Event
)

// ParseWaiting returns the Waiting with the name "adaptive", "busy" or "event". ParseWaiting
// returns an error for any other name.
func ParseWaiting(name string) (Waiting, error) { return waiting.ParseMode(name) }

// Waits counts how goroutines that drive the module have waited. The field Yields counts yields of
// polling goroutines, and the field Crowded counts how often another thread was found to use the
// processor. The field Apart counts how often yielding stopped because another thread computes, and
// the field Stolen counts how often the host of a virtual machine took the CPU away.
type Waits = waiting.Counts
