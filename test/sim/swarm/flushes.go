package swarm

import (
	"errors"

	"gobtl/btl"
)

// onFlush handles the report that everything sent before the message with the given index was
// acknowledged.
func (e *end) onFlush(before int, err error) {
	w := e.w
	w.flushes--
	e.flushes--
	if err != nil {
		if e.flushRefused(before, err) {
			return
		}
		if !e.tainted() {
			if why := e.unjustified(err); why != "" {
				w.fail("%s: Flush ended with %v: %s", e, err, why)
			}
		}
		return
	}
	if e.tainted() {
		return
	}
	for ; e.flushed < before; e.flushed++ {
		m := w.ledger.msgs[e.msgs[e.flushed]]
		switch {
		case nobodys(m.tag) && !m.queued && m.put == nil && m.size >= smallBytes &&
			m.delivered == 0 && e.flushed >= e.told:
			w.fail("%s: flushed without a word, but %s is refused", e, m)
		case m.err != nil || m.tooLong() || m.tag > handledTags ||
			m.put == nil && m.size < smallBytes:
		case m.put == nil && m.delivered != 1 && !m.cutOff():
			w.fail("%s: flushed, but %s was delivered %d times", e, m, m.delivered)
		case m.put != nil && m.put.missing(m):
			w.fail("%s: flushed, but %s has not been written", e, m)
		}
	}
}

// flushRefused checks the report of a flush that a message was refused after its send was reported
// as done.
func (e *end) flushRefused(before int, err error) bool {
	if !errors.Is(err, btl.ErrNoHandler) && !errors.Is(err, btl.ErrRemoteAccess) {
		return false
	}
	some := false
	for _, n := range e.msgs { // also such as came into a pack that was open then
		m := e.w.ledger.msgs[n]
		// An old copy of a refused message may still be delivered, when its tag has a handler
		// again.
		refused := m.put != nil || m.delivered == 0 || m.tag == tagFlicker || m.size < smallBytes
		some = some || !m.queued && refused
		some = some || e.sharedPack(m)
	}
	for size := range e.small { // of these only their number is known
		for _, c := range e.small[size][handledTags:] {
			some = some || c.accepted > 0
		}
	}
	if !some && !e.tainted() {
		e.w.fail("%s: Flush ended with %v, and nothing was refused that was done", e, err)
	}
	e.told = before
	return true
}

// sharedPack reports whether a refused message may have shared a Pack with messages whose sends
// were reported as done when sent. On a reliable network a Pack is not stored and a Nack names only
// a tag, so the refusal applies to all messages of the Pack with that tag.
func (e *end) sharedPack(m *message) bool {
	return e.w.plan.Net.Reliable && errors.Is(m.err, btl.ErrNoHandler)
}
