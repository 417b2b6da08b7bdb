package peer

import (
	"fmt"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/stats"
)

// sortQueues checks fragments that were queued before the peer's limits were known. Fragments that
// do not fit into one packet to the peer move to the queue of large fragments. Fragments whose size
// or kind the peer does not accept end with an error.
func (tx Sender) sortQueues(ep *Endpoint) {
	tx.moveLarge(ep)
	tx.failTooLarge(ep, &ep.small.queue)
	tx.failTooLarge(ep, &ep.large.queue)
	tx.Flushes.checkFlushed(ep)
}

// moveLarge moves queued small fragments that no longer fit into one packet to the queue of large
// fragments.
func (tx Sender) moveLarge(ep *Endpoint) {
	moved := false
	for f := ep.small.queue.first; f != nil; {
		next := f.next
		if f.packetBytes() > ep.MTU() {
			tx.moveToLarge(ep, f)
			moved = true
		}
		f = next
	}
	if moved { // some flushes possibly wait longer than necessary
		ep.Flushes.Requeued(ep.lastBefore)
	}
}

// moveToLarge moves a fragment to the front of the queue of large fragments, because at the end of
// this queue it could follow a Bye, which is not allowed.
func (tx Sender) moveToLarge(ep *Endpoint, f *Fragment) {
	if f.hasSeg {
		tx.Buffers.unfill(f)
	}
	ep.small.queue.remove(f)
	f.large = true
	var behind *Fragment
	q := &ep.needLarge().queue
	for l := q.first; l != nil; l = l.next {
		if l.cursor > 0 || l.fence != f.fence && int32(l.fence-f.fence) < 0 {
			behind = l
		}
	}
	q.insert(f, behind)
}

// failTooLarge removes those fragments from the queue that the peer does not accept, and ends each
// of these fragments with an error.
func (tx Sender) failTooLarge(ep *Endpoint, q *fragmentList) {
	for f := q.first; f != nil; {
		next := f.next
		if err := ep.cannotTake(f); err != nil {
			if f.hasSeg {
				tx.Recovery.Unqueue(f.seg)
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
		return errs.ErrUnsupported
	case f.size > ep.FragBytesMax && !f.isBye():
		return fmt.Errorf("%w: %d bytes, at most %d to this peer", errs.ErrTooLarge, f.size,
			ep.FragBytesMax)
	}
	return nil
}

// Resize sets the maximum size of datagrams to the peer.
func (tx Sender) Resize(ep *Endpoint, sizeBytes int) {
	if was := ep.MTU(); was != sizeBytes {
		ep.UseSize(sizeBytes)
		if ep.MTU() < was {
			tx.Count[stats.CntPathLowered]++
			tx.moveLarge(ep)
		} else {
			tx.Count[stats.CntPathRaised]++
		}
	}
	tx.Sched.Rearm(ep)
	tx.Dirty = true
}
