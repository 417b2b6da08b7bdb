package swarm

import (
	"encoding/binary"
	"errors"

	"gobtl/btl"
)

// Lie is a way to falsify the reports to the judge, where the zero value falsifies nothing.
type Lie struct {
	kind  lieKind
	after int // how many chances to lie pass before the one that is taken
	told  bool
}

type lieKind uint8

const (
	lieNone           lieKind = iota
	lieDeliverTwice           // a delivery is told twice
	lieForgetDelivery         // a delivery is not told
	lieAlter                  // a bit of a message is flipped
	lieCut                    // the last byte of a message is missing
	lieDoneTwice              // OnDone is told twice
	lieForgetDone             // OnDone is not told
	lieWrongError             // a send ends with an error that is none of the module's
	lieNoHandler              // a send is told to have failed for want of a handler
	lieDead                   // ... because the peer is dead
	lieRestarted              // ... because the peer was restarted
	lieRefusedPut             // ... because it may not be written there
	lieClosed                 // ... because its endpoint was closed
	liePeerClosed             // ... because the peer closed it
	lieUnreachable            // ... because the peer was not reached
	lieRefused                // ... because the peer had no room
	lieStalled                // ... because the peer held memory and did not go on
	lieEventTwice             // an endpoint's event is told twice
	lieWrongEvent             // an endpoint's end is told with an error that cannot be
	lieMisroute               // a message is told to have come from another connection
	lieScribble               // a byte of a region changes
	lieFlush                  // a flush is told at once
	numLies
)

var lieNames = [numLies]string{
	"none", "deliver twice", "forget delivery", "alter", "cut", "done twice", "forget done",
	"wrong error", "no handler", "dead", "restarted", "refused put", "closed", "peer closed",
	"unreachable", "refused", "stalled", "event twice", "wrong event",
	"misroute", "scribble", "flush",
}

func (k lieKind) String() string { return lieNames[k] }

var errLie = errors.New("swarm: a lie")

// lying reports whether to lie now.
func (w *world) lying(kind lieKind) bool {
	l := &w.opts.Lie
	if l.kind != kind || l.told {
		return false
	}
	if l.after--; l.after >= 0 {
		return false
	}
	l.told = true
	return true
}

func (w *world) honest() bool { return w.opts.Lie.kind == lieNone }

// lieTwice returns how often to report something.
func (w *world) lieTwice(kind lieKind) int {
	switch {
	case w.honest():
		return 1
	case w.lying(kind):
		return 2
	case kind == lieDeliverTwice && w.lying(lieForgetDelivery):
		return 0
	}
	return 1
}

// lieOutcome returns a changed result of a send.
func (w *world) lieOutcome(m *message, err error) error {
	switch {
	case w.honest() || err != nil:
		return err
	case w.lying(lieWrongError):
		return errLie
	case m.put == nil && m.tag <= handledTags && w.lying(lieNoHandler):
		return btl.ErrNoHandler
	case w.lying(lieDead):
		return btl.ErrPeerDead
	case w.lying(lieRestarted):
		return btl.ErrPeerRestarted
	case m.put != nil && m.put.must && w.lying(lieRefusedPut):
		return btl.ErrRemoteAccess
	case w.lying(lieClosed):
		return btl.ErrClosed
	case w.lying(liePeerClosed):
		return btl.ErrPeerClosed
	case w.lying(lieUnreachable):
		return btl.ErrUnreachable
	case w.lying(lieRefused):
		return btl.ErrRefused
	case w.lying(lieStalled):
		return btl.ErrStalled
	}
	return nil
}

func (w *world) lieEvent(err error) error {
	if !w.honest() && w.lying(lieWrongEvent) {
		return errLie
	}
	return err
}

// lieBytes returns the bytes to report for a message.
func (w *world) lieBytes(e *end, data []byte) []byte {
	if w.honest() || len(data) < smallBytes {
		return data
	}
	switch {
	case w.lying(lieAlter):
		data = append([]byte(nil), data...)
		data[w.d.IntN(len(data))] ^= 1 << w.d.IntN(8)
	case len(data) > smallBytes && w.lying(lieCut):
		data = data[:len(data)-1]
	case w.opts.Lie.kind == lieMisroute && !w.opts.Lie.told:
		for _, m := range w.ledger.msgs {
			if m.put == nil && m.size == len(data) && m.delivered == 0 && m.from.tag != e.peerTag &&
				w.lying(lieMisroute) {
				data = make([]byte, m.size)
				write(data, m.id)
				return data
			}
		}
	}
	return data
}

// lieMemory changes memory that peers may write.
func (w *world) lieMemory() {
	if w.honest() {
		return
	}
	for _, h := range w.hosts {
		for _, l := range h.lives {
			for _, r := range l.regions {
				if w.lying(lieScribble) {
					r.all[w.d.IntN(len(r.all))] ^= 0x11
				}
			}
		}
	}
}

// lieFlush reports the end of a flush too early.
func (w *world) lieFlush(e *end, before int) {
	if w.honest() || w.opts.Lie.kind != lieFlush {
		return
	}
	for _, n := range e.msgs[:before] {
		m := w.ledger.msgs[n]
		if m.put == nil && m.size >= smallBytes && m.tag <= handledTags && m.delivered == 0 &&
			m.err == nil && w.lying(lieFlush) {
			w.flushes++
			e.flushes++
			e.onFlush(before, nil)
			return
		}
	}
}

// idOf reads the id of a message that has room for one.
func idOf(data []byte) uint64 { return binary.LittleEndian.Uint64(data) }
