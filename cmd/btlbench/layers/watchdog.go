package layers

import (
	"time"

	"gobtl/internal/mono"
)

// watchdog notices that nothing happens.
type watchdog struct {
	mark            uint64
	since, lookedAt mono.Time
}

const (
	// pauseShare is the part of the limit from which on the time between two questions is not counted:
	// this process has not run meanwhile, or hardly. The transport judges its peer likewise.
	pauseShare = 32
	// pauseLeast is the shortest such time: a sleep is none.
	pauseLeast = sleepMost * 3 / 2
)

// stuck says whether a mark has been the same for longer than a limit.
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
