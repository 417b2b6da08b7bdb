package layers

import (
	"time"

	"gobtl/internal/mono"
)

// watchdog detects that a round makes no progress.
type watchdog struct {
	mark            uint64
	since, lookedAt mono.Time
}

const (
	// pauseShare is the divisor of the limit that gives the longest counted time between two calls,
	// because after a longer time this process has not run. The transport judges a silent peer in the
	// same way as watchdog judges a round.
	pauseShare = 32
	// pauseLeast is the shortest time that counts as a pause, and is longer than a sleep.
	pauseLeast = sleepMost * 3 / 2
)

// stuck reports whether a mark has stayed the same for longer than a limit.
func (w *watchdog) stuck(mark uint64, now mono.Time, limit time.Duration) bool {
	if pause := now.Sub(w.lookedAt); pause > max(limit/pauseShare, pauseLeast) {
		w.since = w.since.Add(pause)
	}
	w.lookedAt = now
	if mark != w.mark || w.since > now {
		w.mark, w.since = mark, now
	}
	return now.Sub(w.since) > limit
}
