package swarm

import (
	"errors"

	"gobtl/btl"
)

// Every now and then a message is taken back as soon as it is accepted, if it has not left; and
// every now and then a send is held, and its descriptor given back after the pass that ends it.

// every how many messages.
const (
	cancelEvery = 16
	holdEvery   = 8
)

// heldSend is a send that has ended, whose descriptor is the application's.
type heldSend struct {
	f   *btl.Fragment
	err error
}

// mayCancel takes a message back, if it is its turn.
func (e *end) mayCancel(f *btl.Fragment, m *message) {
	if m.number%cancelEvery != 5 || m.put != nil || m.ended {
		return
	}
	switch err := e.ep.Cancel(e.w.net.Now(), f); {
	case err == nil:
		m.canceled = true
		if m.size < smallBytes {
			e.small[m.size][tagIndex(m.tag)].accepted--
		}
		e.w.res.Canceled++
	case !errors.Is(err, btl.ErrState):
		e.w.fail("%s: Cancel: %w", m, err)
	}
}

// giveBack frees what has been held.
func (l *life) giveBack() {
	for _, h := range l.held {
		over, err := h.f.Poll()
		if !over || err != h.err { //nolint:errorlint // it must be the same
			l.w.fail("node %s: a send that ended with %v is over: %v, %v", l.host.node.Name(), h.err,
				over, err)
		}
		if err := h.f.Endpoint().Free(h.f); err != nil {
			l.w.fail("node %s: Free of a send that is over: %w", l.host.node.Name(), err)
		}
	}
	clear(l.held)
	l.held = l.held[:0]
}
