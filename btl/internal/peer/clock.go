package peer

import (
	"gobtl/internal/mono"
)

// At sets the module's time at the beginning of any method except Progress. At makes the next call
// of Progress examine the whole state, because the method that has called At may leave work to
// Progress. A time before the module's time is ignored.
func (all *Services) At(now mono.Time) {
	all.Rest.Stir()
	if now > all.Clock.Now {
		all.Tick(now)
	}
}

// Tick only sets the module's time.
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
