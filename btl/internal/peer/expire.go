package peer

import (
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/probe"
	"gobtl/internal/mono"
)

// Timers contains the timers of all peers.
type Timers struct {
	Watches liveness.Watches[*Endpoint] // one timer for each endpoint
	Paths   probe.Paths[*Endpoint]      // timers of the searches for the path MTU
	shedAt  mono.Time                   // earliest time of the next check of peers that hold memory
	scarce  mono.Time                   // since when at least one peer lacks reassembly memory
}

// Expire handles expired timers.
func (all *Services) Expire() {
	for s := all.Recovery.Expire(all.Clock.Now); s != nil; s = all.Recovery.Expire(all.Clock.Now) {
		all.Sched.Rearm(all.Peers.At(s.Number()))
	}
	if all.Draining && all.Clock.Now >= all.drainUntil {
		all.EndAll()
	}
	all.Timers.Watches.Expire()
	if all.Handshakes.OnRequestsTimer() {
		all.Dirty = true
	}
	if all.Sched.Pauses.Due(all.Clock.Now) {
		all.Sched.Pauses.End(all.Clock.Now, all.Sender.resume)
	}
	all.Timers.Paths.Expire()
}
