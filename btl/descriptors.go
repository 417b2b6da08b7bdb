package btl

import (
	"fmt"

	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/share"
	"gobtl/btl/internal/spare"
	"gobtl/frag"
)

// descriptors is the pool of a module's fragment descriptors, which are allocated on demand and
// lent to applications.
//
//	free --lend--> with the caller --Send--> queued, sent, ended --giveBack--> free
type descriptors struct {
	free  []*Fragment
	count int // descriptors allocated so far
	lent  int // descriptors with the caller

	answers []*Fragment // idle descriptors for answers to peers

	payloads payload.Memory // where the bytes of fragments lie

	large spare.Memory // idle memory for Allocs above ownBytesMax
}

// ownBytesMax is the maximum memory, in bytes, that an unused descriptor keeps for its next Alloc.
const ownBytesMax = 256 << 10

// takeLarge returns memory of sizeBytes for Alloc. Memory above ownBytesMax is used again.
func (d *descriptors) takeLarge(sizeBytes int) []byte {
	if sizeBytes > ownBytesMax {
		return d.large.Take(sizeBytes)
	}
	return make([]byte, sizeBytes)
}

// lend takes a free descriptor for an endpoint, or allocates a descriptor if fewer than most
// exist.
func (d *descriptors) lend(ep *Endpoint, most int, alone bool) (*Fragment, bool) {
	left := most - d.count + len(d.free)
	if !share.MayHave(ep.descriptors, left, most, alone) {
		return nil, false
	}
	var f *Fragment
	if n := len(d.free); n > 0 {
		f = d.free[n-1]
		d.free = d.free[:n-1]
	} else {
		d.count++
		f = new(Fragment)
	}
	f.ep, f.state = ep, fragLent
	ep.descriptors++
	d.lent++
	return f, true
}

// giveBack frees a descriptor that no longer holds a send buffer. The descriptor keeps up to
// ownBytesMax of memory for its next use.
func (d *descriptors) giveBack(f *Fragment) {
	if f.state == fragLent {
		d.lent--
	}
	f.ep.descriptors--
	f.ep.urgent.Give(f.urgent)
	own := f.own
	if cap(own) > ownBytesMax {
		d.large.Give(own)
		own = nil
	}
	*f = Fragment{own: own}
	d.free = append(d.free, f)
}

// lendAnswer returns a fragment for the answer to a peer's get or atomic operation.
func (d *descriptors) lendAnswer(ep *Endpoint) *Fragment {
	var f *Fragment
	if n := len(d.answers); n > 0 {
		f = d.answers[n-1]
		d.answers = d.answers[:n-1]
	} else {
		f = new(Fragment)
	}
	f.ep, f.answer = ep, true
	return f
}

// giveBackAnswer frees a fragment of lendAnswer.
func (d *descriptors) giveBackAnswer(f *Fragment) {
	own := f.own
	if cap(own) > ownBytesMax {
		own = nil
	}
	*f = Fragment{own: own}
	d.answers = append(d.answers, f)
}

// freeFrag frees a descriptor, and also the descriptor's send buffer if it was never sent.
func (m *Module) freeFrag(f *Fragment) {
	if f.op != nil {
		m.endOp(f)
		m.remote.Give(f.op)
	}
	if f.hasSeg {
		m.giveSeg(f.ep, f.seg)
	}
	m.frags.payloads.Join(&f.data)
	m.frags.giveBack(f)
}

// isBye reports whether f is a Bye, the transport's own fragment that ends a connection.
func (f *Fragment) isBye() bool { return f.tag == frag.TagBye && !f.put }

// internal reports whether f is a fragment of the transport itself, which is a Bye or an answer to
// a peer's operation.
func (f *Fragment) internal() bool { return f.answer || f.isBye() }

// checkFree verifies up to eight of the free descriptors in each call, all of them in turn.
func (d *descriptors) checkFree(c *checker) error {
	const some = 8
	for range min(some, len(d.free)) {
		if c.freeNext++; c.freeNext >= len(d.free) {
			c.freeNext = 0
		}
		if f := d.free[c.freeNext]; f.state != fragFree || f.ep != nil || f.hasSeg || f.out != 0 ||
			f.data.Registered() {
			return fmt.Errorf("free descriptor %d is in state %d", c.freeNext, f.state)
		}
	}
	return nil
}

// check verifies that every descriptor is free, lent, queued, sent, or waiting for the call of its
// OnDone.
func (d *descriptors) check(c *checker, most int) error {
	found := len(d.free) + d.lent + c.frags[fragQueued] + c.frags[fragSent] +
		c.frags[fragEnded]
	if found != d.count || d.lent < 0 || d.count > most {
		return fmt.Errorf("%d descriptors, at most %d: %d free, %d lent, %d queued, %d sent, %d ended",
			d.count, most, len(d.free), d.lent, c.frags[fragQueued],
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

// insert puts f after the fragment behind, or at the front of the list if behind is nil.
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

func (l *fragmentList) pop() *Fragment {
	f := l.first
	if f != nil {
		l.remove(f)
	}
	return f
}

// remove takes f, which is in the list, out of it. The result before is nil if f was the first.
func (l *fragmentList) remove(f *Fragment) (before *Fragment) {
	at := &l.first
	for *at != f {
		before, at = *at, &(*at).next
	}
	*at, f.next = f.next, nil
	if l.last == f {
		l.last = before
	}
	l.count--
	return before
}
