package peer

import (
	"gobtl/internal/mono"
)

// At sets the time in a call of any method except Progress. At makes the next call of Progress
// examine the whole state, because the method may have left work. A time before the module's time
// is ignored.
func (all *Services) At(now mono.Time) {
	all.Rest.Stir()
	all.Tick(now)
}

// Tick only sets the module's time.
func (all *Services) Tick(now mono.Time) {
	if now > all.Clock.Now {
		all.advance(now)
	}
}

func (all *Services) advance(now mono.Time) {
	asked := mono.Never
	if all.Clock.MayPause(now) {
		asked = all.owner.Deadline()
	}
	all.Clock.SetNow(now, asked)
}
