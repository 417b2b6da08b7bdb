package peer

import "gobtl/internal/mono"

// At sets the module's time to "now" at the beginning of any method except Progress. After At, the
// next call of Progress examines the module's whole state, because the method that calls At can
// make timers or fragments due. At never sets the module's time back.
func (all *Services) At(now mono.Time) {
	all.Rest.Stir()
	if now > all.Clock.Now {
		all.Tick(now)
	}
}

// Tick sets the module's time. Unlike At, Tick does not make Progress examine the module's whole
// state.
func (all *Services) Tick(now mono.Time) {
	if now <= all.Clock.Now {
		return
	}
	asked := mono.Never
	if now.Sub(all.Clock.PassAt) >= all.Clock.PauseMin {
		asked = all.owner.Deadline()
	}
	all.Clock.SetNow(now, asked)
}
