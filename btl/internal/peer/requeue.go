package peer

import (
	"fmt"

	"gobtl/btl/internal/stats"
)

// sortQueues moves or ends fragments that were queued before the peer's limits were known.
// Fragments that do not fit into one packet to the peer move to the queue of large fragments.
// Fragments whose size or kind the peer does not accept end with an error.
func (tx *Sender) sortQueues(ep *Endpoint) {
	tx.moveLarge(ep)
	tx.failTooLarge(ep, &ep.Small.Queue)
	tx.failTooLarge(ep, &ep.Large.Queue)
	tx.Flushes.checkFlushed(ep)
}

// moveLarge moves queued small fragments that no longer fit into one packet to the queue of large
// fragments.
func (tx *Sender) moveLarge(ep *Endpoint) {
	moved := false
	for f := ep.Small.Queue.First; f != nil; {
		next := f.Next
		if !ep.fitsPacket(f) {
			tx.moveToLarge(ep, f)
			moved = true
		}
		f = next
	}
	if moved { // some flushes may wait longer than necessary
		ep.Flushes.Requeued(ep.lastBefore)
	}
}

// moveToLarge moves a fragment to the front of the queue of large fragments, because the last
// fragment of the queue may be a Bye.
func (tx *Sender) moveToLarge(ep *Endpoint, f *Fragment) {
	if f.hasSeg {
		tx.Buffers.unfill(f)
	}
	ep.Small.Queue.remove(f)
	f.large = true
	var behind *Fragment
	for l := ep.Large.Queue.First; l != nil; l = l.Next {
		if l.begun() || l.fence != f.fence && int32(l.fence-f.fence) < 0 {
			behind = l
		}
	}
	ep.Large.Queue.insert(f, behind)
}

// failTooLarge removes from the queue each fragment that the peer does not accept, and ends
// the fragment with an error.
func (tx *Sender) failTooLarge(ep *Endpoint, q *FragmentList) {
	for f := q.First; f != nil; {
		next := f.Next
		if err := ep.cannotTake(f); err != nil {
			if f.hasSeg {
				tx.Recovery.Unqueue(f.Seg)
			}
			if !f.told {
				ep.NoteUntold(err)
			}
			tx.unqueue(ep, f)
			tx.Sent.complete(f, err)
		}
		f = next
	}
}

func (ep *Endpoint) cannotTake(f *Fragment) error {
	switch {
	case f.Op != nil && !ep.ID.Operates:
		return ErrUnsupported
	case f.size > ep.FragBytesMax && !f.IsBye():
		return fmt.Errorf("%w: %d bytes, at most %d to this peer", ErrTooLarge, f.size, ep.FragBytesMax)
	}
	return nil
}

// Resize sets the size of the largest datagram that is sent to the peer from now on.
func (tx *Sender) Resize(ep *Endpoint, sizeBytes int) {
	if was := ep.MTU; was != sizeBytes {
		ep.UseSize(sizeBytes)
		if ep.MTU < was {
			tx.Count[stats.CntPathLowered]++
			tx.moveLarge(ep)
		} else {
			tx.Count[stats.CntPathRaised]++
		}
	}
	tx.Sched.Rearm(ep)
	tx.dirty = true
}
