package peer

import (
	"fmt"

	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/share"
	"gobtl/btl/internal/spare"
	"gobtl/frag"
)

// Descriptors is the pool of a module's fragment descriptors. Alloc and the Prepare methods give a
// descriptor to the application, which owns it until Send or Free.
//
//	free --lend--> with the caller --Send--> queued, sent, ended --giveBack--> free
type Descriptors struct {
	*Services

	idle  []*Fragment
	count int // descriptors allocated so far
	lent  int // descriptors that the application owns

	answers spare.List[Fragment] // idle descriptors for answers to peers

	Payloads payload.Memory // the memory of fragments' payloads

	spare spare.Memory // idle memory that belongs to no descriptor
}

// ownBytesMax is the maximum size, in bytes, of the memory that an unused descriptor keeps for its
// next Alloc. Memory of more than ownBytesMax moves from the unused descriptor to
// Descriptors.spare, whose size is limited.
const ownBytesMax = 4 << 10

// takeOwn gives fragment f memory of sizeBytes for Alloc. If possible, takeOwn reuses memory of
// fragments that were freed before.
func (ds *Descriptors) takeOwn(f *Fragment, sizeBytes int) {
	if cap(f.own) >= sizeBytes {
		return
	}
	before := f.own
	f.own = ds.spare.Take(sizeBytes)
	if cap(before) > 0 {
		ds.spare.Give(before)
	}
}

// mayLend reports whether the limits allow an endpoint one more descriptor.
func (ds *Descriptors) mayLend(ep *Endpoint) bool {
	held, most := ep.ID.Host.Descriptors, ds.Config.FragmentsMax
	left := most - ds.count + len(ds.idle)
	return share.Ample(held, left, most) > 0 ||
		share.MayTake(ep.descriptors, held, left, most, ds.Peers.Soles())
}

// lend takes a free descriptor for an endpoint, or allocates a descriptor if the module has fewer
// than Config.FragmentsMax. lend returns nil if the limits do not allow the endpoint one more
// descriptor at present.
func (ds *Descriptors) lend(ep *Endpoint) (f *Fragment) {
	if !ds.mayLend(ep) {
		return nil
	}
	if n := len(ds.idle); n > 0 {
		f = ds.idle[n-1]
		ds.idle = ds.idle[:n-1]
	} else {
		ds.count++
		f = ds.owner.NewFragment()
	}
	f.Ep, f.state = ep, fragLent
	ep.descriptors++
	ep.ID.Host.Descriptors.Take()
	ds.lent++
	return f
}

// giveBack frees a descriptor that no longer has a send buffer. A free descriptor keeps up to
// ownBytesMax of memory for its next use.
func (ds *Descriptors) giveBack(f *Fragment) {
	if f.state == fragLent {
		ds.lent--
	}
	f.Ep.descriptors--
	f.Ep.ID.Host.Descriptors.Give()
	ds.Outbox.seekRoom()
	f.Ep.urgent.Give(f.urgent)
	ds.giveOwn(f)
	f.message = message{}
	ds.idle = append(ds.idle, f)
}

// giveOwn moves the memory of a fragment that becomes unused to Descriptors.spare, if this memory
// is larger than ownBytesMax.
func (ds *Descriptors) giveOwn(f *Fragment) {
	if cap(f.own) > ownBytesMax {
		ds.spare.Give(f.own)
		f.own = nil
	}
}

// LendAnswer returns a fragment for the answer to a peer's get or atomic operation.
func (ds *Descriptors) LendAnswer(ep *Endpoint) *Fragment {
	f := ds.answers.Take()
	f.Ep, f.answer = ep, true
	return f
}

// giveBackAnswer frees a fragment that LendAnswer has returned.
func (ds *Descriptors) giveBackAnswer(f *Fragment) {
	ds.giveOwn(f)
	*f = Fragment{own: f.own}
	ds.answers.Give(f)
}

// FreeFrag frees a descriptor, and the descriptor's send buffer if this buffer was never sent.
func (ds *Descriptors) FreeFrag(f *Fragment) {
	if f.Op != nil {
		ds.Sent.endOp(f)
		ds.Remote.Give(f.Op)
	}
	if f.hasSeg {
		ds.Buffers.giveSeg(f.Ep, f.seg)
	}
	ds.Payloads.Join(&f.Data)
	ds.giveBack(f)
}

// isBye reports whether f is a Bye, which is the fragment by which the transport ends a connection.
func (f *Fragment) isBye() bool { return f.tag == frag.TagBye && !f.put }

// internal reports whether f is a fragment of the transport itself, which is a Bye or an answer to
// a peer's operation.
func (f *Fragment) internal() bool { return f.answer || f.isBye() }

// checkFree verifies up to eight free descriptors. Successive calls of checkFree verify different
// descriptors, so that several calls verify all free descriptors.
func (ds *Descriptors) checkFree(c *Checker) error {
	const some = 8
	for range min(some, len(ds.idle)) {
		if c.freeNext++; c.freeNext >= len(ds.idle) {
			c.freeNext = 0
		}
		if f := ds.idle[c.freeNext]; f.state != fragFree || f.Ep != nil || f.hasSeg || f.out != 0 ||
			f.Data.Registered() {
			return fmt.Errorf("free descriptor %d is in state %d", c.freeNext, f.state)
		}
	}
	return nil
}

// check verifies that every descriptor is free, owned by the application, queued, sent, or waiting
// for the call of its OnDone.
func (ds *Descriptors) check(c *Checker, most int) error {
	found := len(ds.idle) + ds.lent + c.frags[fragQueued] + c.frags[fragSent] +
		c.frags[fragEnded]
	if found != ds.count || ds.lent < 0 || ds.count > most {
		return fmt.Errorf("%d descriptors, at most %d: %d free, %d lent, %d queued, %d sent, %d ended",
			ds.count, most, len(ds.idle), ds.lent, c.frags[fragQueued],
			c.frags[fragSent], c.frags[fragEnded])
	}
	return nil
}

// fragmentList is a first-in-first-out list, linked through Fragment.next.
type fragmentList struct {
	first, last *Fragment
	count       int
}

func (l *fragmentList) push(f *Fragment) { l.insert(f, l.last) }

// insert puts f after the fragment "behind", or at the front of the list if "behind" is nil.
func (l *fragmentList) insert(f, behind *Fragment) {
	at := &l.first
	if behind != nil {
		at = &behind.next
	}
	f.next, *at = *at, f
	if l.last == behind {
		l.last = f
	}
	l.count++
}

// pop removes and returns the first fragment, or nil if the list is empty.
func (l *fragmentList) pop() *Fragment {
	f := l.first
	if f != nil {
		l.remove(f)
	}
	return f
}

// remove removes the fragment f from the list, and returns the fragment before f. The result
// "before" of the method "remove" is nil if f was the first fragment in the list.
func (l *fragmentList) remove(f *Fragment) (before *Fragment) {
	for g := l.first; g != f; g = g.next {
		before = g
	}
	l.removeBehind(before, f)
	return before
}

// removeBehind removes the fragment f from the list. The argument "before" of removeBehind is the
// fragment before f in the list, or nil if f is the first fragment.
func (l *fragmentList) removeBehind(before, f *Fragment) {
	at := &l.first
	if before != nil {
		at = &before.next
	}
	*at, f.next = f.next, nil
	if l.last == f {
		l.last = before
	}
	l.count--
}
