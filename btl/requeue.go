package btl

import "fmt"

// sortQueues moves or ends fragments that were queued before the peer's limits were known.
// Fragments that do not fit into one packet to the peer move to the queue of large fragments.
// Fragments whose size or kind the peer does not accept end with an error.
func (m *Module) sortQueues(ep *Endpoint) {
	m.moveLarge(ep)
	m.failTooLarge(ep, &ep.small.queue)
	m.failTooLarge(ep, &ep.large.queue)
	ep.checkFlushed()
}

// moveLarge moves queued small fragments that no longer fit into one packet to the queue of large
// fragments.
func (m *Module) moveLarge(ep *Endpoint) {
	moved := false
	for f := ep.small.queue.first; f != nil; {
		next := f.next
		if !ep.fitsPacket(f) {
			m.moveToLarge(ep, f)
			moved = true
		}
		f = next
	}
	if moved { // some flushes may wait longer than necessary
		ep.flushes.Requeued(ep.lastBefore)
	}
}

// moveToLarge moves a fragment to the front of the queue of large fragments, because the last
// fragment of the queue may be a Bye.
func (m *Module) moveToLarge(ep *Endpoint, f *Fragment) {
	if f.hasSeg {
		m.unfill(f)
	}
	ep.small.queue.remove(f)
	f.large = true
	var behind *Fragment
	for l := ep.large.queue.first; l != nil; l = l.next {
		if l.begun() || l.fence != f.fence && int32(l.fence-f.fence) < 0 {
			behind = l
		}
	}
	ep.large.queue.insert(f, behind)
}

// failTooLarge removes from the queue each fragment that the peer does not accept, and ends
// the fragment with an error.
func (m *Module) failTooLarge(ep *Endpoint, q *fragmentList) {
	for f := q.first; f != nil; {
		next := f.next
		if err := ep.cannotTake(f); err != nil {
			if f.hasSeg {
				m.recovery.Unqueue(f.seg)
			}
			if f.OnDone == nil {
				ep.noteUntold(err)
			}
			m.unqueue(ep, f)
			m.complete(f, err)
		}
		f = next
	}
}

func (ep *Endpoint) cannotTake(f *Fragment) error {
	switch {
	case f.op != nil && !ep.id.Operates:
		return ErrUnsupported
	case f.size > ep.fragBytesMax && !f.isBye():
		return fmt.Errorf("%w: %d bytes, at most %d to this peer", ErrTooLarge, f.size, ep.fragBytesMax)
	}
	return nil
}
