package peer

import (
	"fmt"

	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/share"
	"gobtl/btl/internal/spare"
	"gobtl/frag"
)

// Descriptors is the pool of a module's fragment descriptors, which are allocated on demand and
// lent to applications.
//
//	free --lend--> with the caller --Send--> queued, sent, ended --giveBack--> free
type Descriptors struct {
	*Services

	Idle  []*Fragment
	Count int // descriptors allocated so far
	Lent  int // descriptors with the caller

	answers []*Fragment // idle descriptors for answers to peers

	Payloads payload.Memory // where the bytes of fragments lie

	large spare.Memory // idle memory for Allocs above ownBytesMax
}

// ownBytesMax is the maximum memory, in bytes, that an unused descriptor keeps for its next Alloc.
const ownBytesMax = 256 << 10

// takeLarge returns memory of sizeBytes for Alloc. Memory above ownBytesMax is used again.
func (ds *Descriptors) takeLarge(sizeBytes int) []byte {
	if sizeBytes > ownBytesMax {
		return ds.large.Take(sizeBytes)
	}
	return make([]byte, sizeBytes)
}

// lend takes a free descriptor for an endpoint, or allocates a descriptor if fewer than most
// exist.
func (ds *Descriptors) lend(ep *Endpoint, most int, alone bool) (*Fragment, bool) {
	left := most - ds.Count + len(ds.Idle)
	if !share.MayHave(int(ep.Descriptors), left, most, alone) {
		return nil, false
	}
	var f *Fragment
	if n := len(ds.Idle); n > 0 {
		f = ds.Idle[n-1]
		ds.Idle = ds.Idle[:n-1]
	} else {
		ds.Count++
		f = ds.owner.NewFragment()
	}
	f.Ep, f.State = ep, FragLent
	ep.Descriptors++
	ds.Lent++
	return f, true
}

// giveBack frees a descriptor that no longer holds a send buffer. The descriptor keeps up to
// ownBytesMax of memory for its next use.
func (ds *Descriptors) giveBack(f *Fragment) {
	if f.State == FragLent {
		ds.Lent--
	}
	f.Ep.Descriptors--
	f.Ep.Urgent.Give(f.urgent)
	owner, own := f.owner, f.own
	if cap(own) > ownBytesMax {
		ds.large.Give(own)
		own = nil
	}
	*f = Fragment{} // cheaper than a copy of a new one
	f.owner, f.own = owner, own
	ds.Idle = append(ds.Idle, f)
}

// LendAnswer returns a fragment for the answer to a peer's get or atomic operation.
func (ds *Descriptors) LendAnswer(ep *Endpoint) *Fragment {
	var f *Fragment
	if n := len(ds.answers); n > 0 {
		f = ds.answers[n-1]
		ds.answers = ds.answers[:n-1]
	} else {
		f = new(Fragment)
	}
	f.Ep, f.Answer = ep, true
	return f
}

// giveBackAnswer frees a fragment of lendAnswer.
func (ds *Descriptors) giveBackAnswer(f *Fragment) {
	own := f.own
	if cap(own) > ownBytesMax {
		own = nil
	}
	*f = Fragment{own: own}
	ds.answers = append(ds.answers, f)
}

// FreeFrag frees a descriptor, and also the descriptor's send buffer if it was never sent.
func (ds *Descriptors) FreeFrag(f *Fragment) {
	if f.Op != nil {
		ds.Sent.endOp(f)
		ds.Remote.Give(f.Op)
	}
	if f.hasSeg {
		ds.Buffers.giveSeg(f.Ep, f.Seg)
	}
	ds.Payloads.Join(&f.Data)
	ds.giveBack(f)
}

// IsBye reports whether f is a Bye, the transport's own fragment that ends a connection.
func (f *Fragment) IsBye() bool { return f.tag == frag.TagBye && !f.put }

// internal reports whether f is a fragment of the transport itself, which is a Bye or an answer to
// a peer's operation.
func (f *Fragment) internal() bool { return f.Answer || f.IsBye() }

// CheckFree verifies up to eight free descriptors in each call, so that several calls verify all
// free descriptors.
func (ds *Descriptors) checkFree(c *Checker) error {
	const some = 8
	for range min(some, len(ds.Idle)) {
		if c.freeNext++; c.freeNext >= len(ds.Idle) {
			c.freeNext = 0
		}
		if f := ds.Idle[c.freeNext]; f.State != fragFree || f.Ep != nil || f.hasSeg || f.Out != 0 ||
			f.Data.Registered() {
			return fmt.Errorf("free descriptor %d is in state %d", c.freeNext, f.State)
		}
	}
	return nil
}

// check verifies that every descriptor is free, lent, queued, sent, or waiting for the call of its
// OnDone.
func (ds *Descriptors) check(c *Checker, most int) error {
	found := len(ds.Idle) + ds.Lent + c.frags[FragQueued] + c.frags[FragSent] +
		c.frags[fragEnded]
	if found != ds.Count || ds.Lent < 0 || ds.Count > most {
		return fmt.Errorf("%d descriptors, at most %d: %d free, %d lent, %d queued, %d sent, %d ended",
			ds.Count, most, len(ds.Idle), ds.Lent, c.frags[FragQueued],
			c.frags[FragSent], c.frags[fragEnded])
	}
	return nil
}

// FragmentList is a first-in-first-out list, linked through Fragment.Next.
type FragmentList struct {
	First, Last *Fragment
	Count       int
}

func (l *FragmentList) push(f *Fragment) { l.insert(f, l.Last) }

// insert puts f after the fragment behind, or at the front of the list if behind is nil.
func (l *FragmentList) insert(f, behind *Fragment) {
	at := &l.First
	if behind != nil {
		at = &behind.Next
	}
	f.Next, *at = *at, f
	if l.Last == behind {
		l.Last = f
	}
	l.Count++
}

// Pop removes and returns the first fragment, or nil if the list is empty.
func (l *FragmentList) Pop() *Fragment {
	f := l.First
	if f != nil {
		l.remove(f)
	}
	return f
}

// remove takes f, which is in the list, out of it. The result before is nil if f was the first.
func (l *FragmentList) remove(f *Fragment) (before *Fragment) {
	at := &l.First
	for *at != f {
		before, at = *at, &(*at).Next
	}
	*at, f.Next = f.Next, nil
	if l.Last == f {
		l.Last = before
	}
	l.Count--
	return before
}
