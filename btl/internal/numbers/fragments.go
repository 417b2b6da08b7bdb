package numbers

import "gobtl/internal/seq"

// Fragments assigns ids to the fragments that are sent to one peer in several packets. The ids of
// all incomplete fragments must be close together, because the peer finds an incomplete fragment by
// the lower bits of its id.
//
// In each method of Fragments, the argument "oldest" is the number of the oldest packet in flight,
// and the argument "next" is the number of the next packet to be sent.
type Fragments struct {
	last     uint32  // the latest id assigned
	finished uint32  // fragments before this id have ended
	markID   uint32  // id of a fragment whose first packet is mark
	mark     seq.Num // its acknowledgement proves that the fragments before markID have ended
}

// Init makes last+1 the next id.
func (n *Fragments) Init(last uint32) { n.last, n.finished, n.markID = last, last, last }

// Last returns the latest id.
func (n *Fragments) Last() uint32 { return n.last }

// Take returns the id of the next fragment, whose first packet will have at least the number
// "next".
func (n *Fragments) Take(oldest, next seq.Num) uint32 {
	n.finish(oldest, next)
	n.last++
	if n.markID == n.finished {
		n.mark, n.markID = next, n.last
	}
	return n.last
}

// MayTake reports whether the id of the next fragment is available. The next id is available if the
// latest id is less than "most" ahead of the id of the oldest fragment that is possibly incomplete.
func (n *Fragments) MayTake(most uint32, oldest, next seq.Num) bool {
	n.finish(oldest, next)
	return n.last-n.finished < most
}

// finish records that the fragments before markID have ended, if the packet with the number n.mark
// is no longer in flight.
func (n *Fragments) finish(oldest, next seq.Num) {
	if uint32(n.mark-oldest) >= uint32(next-oldest) {
		n.finished = n.markID
	}
}
