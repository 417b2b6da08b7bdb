package runner

import (
	"context"
	"errors"
	"time"

	"gobtl/fabric"
	"gobtl/internal/waiting"
)

// sleepHolding sleeps without releasing the module, so a goroutine with a new call must wake the
// sleeping goroutine. The result of sleepHolding is true if it has slept, and false if new work was
// found first.
func (r *Runner) sleepHolding(
	ctx context.Context, c *call, d time.Duration, p *waiting.Policy,
) bool {
	r.policies.note()
	r.turn.holding.Store(true)
	defer r.turn.holding.Store(false)
	if !r.inbox.empty() || r.turn.wanted.Load() > 0 || r.asked.Load() {
		return false
	}
	defer wakeAtEnd(ctx, c, r.m)()
	begin := r.now()
	err := r.m.Wait(d)
	if errors.Is(err, fabric.ErrNotSupported) {
		d = min(d, 100*time.Microsecond)
		time.Sleep(d)
	} else if err != nil {
		r.broken = err
		r.asked.Store(true)
	}
	p.Slept(d, r.now().Sub(begin), r.slack)
	return true
}
