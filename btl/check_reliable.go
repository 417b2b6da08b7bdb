package btl

import "fmt"

// checkReliable looks at what a reliable endpoint has instead of a window.
func (m *Module) checkReliable(c *checker, ep *Endpoint) error {
	oldest, next := ep.snd.Window()
	unconfirmed := ep.snd.InFlight()
	r := &ep.rel
	switch {
	case ep.state != stateConnected && (unconfirmed > 0 || r.confirm.count > 0):
		return fmt.Errorf("%d packets, %d fragments not confirmed in state %d", unconfirmed,
			r.confirm.count, ep.state)
	case ep.state == stateConnected && ep.owed() && ep.room == 0:
		return fmt.Errorf("%d packets not confirmed, or no credits, and no timer", unconfirmed)
	case r.held < 0 || r.held > ep.buffers:
		return fmt.Errorf("the fabric holds %d send buffers of %d", r.held, ep.buffers)
	case r.watched && ep.room == 0:
		return fmt.Errorf("watched without a timer")
	case len(r.nacks) > 0 && !ep.ackOwed:
		return fmt.Errorf("%d refusals to be told, and no ACK owed", len(r.nacks))
	case ep.asm.Active() > 1:
		return fmt.Errorf("%d fragments arrive at a time", ep.asm.Active())
	}
	count, before := 0, oldest
	for f := r.confirm.first; f != nil && count <= r.confirm.count; f = f.next {
		count++
		if f.state != fragSent || f.ep != ep || f.until.Before(before) || !f.until.Before(next) {
			return fmt.Errorf("fragment in state %d waits for packet %d of [%d, %d)", f.state, f.until,
				before, next)
		}
		before = f.until
		c.meet(f)
		if f.unmet == 0 {
			return fmt.Errorf("fragment for packet %d waits for nothing", f.until)
		}
		f.unmet--
		c.refs++
	}
	if count != r.confirm.count {
		return fmt.Errorf("%d fragments not confirmed, %d counted", count, r.confirm.count)
	}
	return nil
}
