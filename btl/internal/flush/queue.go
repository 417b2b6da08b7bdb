package flush

import (
	"fmt"

	"gobtl/internal/seq"
)

// Flows is the number of flows of an endpoint: small fragments, and large ones.
const Flows = 2

// Tails are the last fragments of each flow, the zero value where a flow is empty.
type Tails[F any] [Flows]F

// entry is a pending call of Flush or Fence.
type entry[F comparable] struct {
	fn     func(error)
	after  Tails[F] // set while these fragments have not been sent whole
	until  seq.Num  // acknowledged below this number means flushed
	sent   seq.Num  // what was sent before the call has numbers below this one
	open   bool     // and the last of these was an open pack
	fence  bool     // nobody is told, but what waits behind it may be sent
	fences uint32   // calls of Fence before this one
	err    error    // some of that was refused
}

// waits says whether the flush waits for queued fragments to be sent.
func (e *entry[F]) waits() bool {
	var none F
	return e.after[0] != none || e.after[1] != none
}

// Queue is the pending calls of an endpoint, whose fragments are F. They complete in the order of
// the calls. A nil Queue is empty, and may be read.
type Queue[F comparable] struct {
	entries  []entry[F]
	head     int    // entries before it are gone
	set, met uint32 // calls of Fence, and those that are complete
	refused  uint64 // messages that the peer has refused after they were reported done
	last     error  // why the latest of them
	untold   error  // what the next flush is to say
}

// Len is the number of pending calls.
func (q *Queue[F]) Len() int {
	if q == nil {
		return 0
	}
	return len(q.entries) - q.head
}

// all are the pending calls, the oldest first.
func (q *Queue[F]) all() []entry[F] { return q.entries[q.head:] }

// Set is the number of calls of Fence: a fragment that is queued now stands behind them.
func (q *Queue[F]) Set() uint32 {
	if q == nil {
		return 0
	}
	return q.set
}

// Met is the number of fences that are complete.
func (q *Queue[F]) Met() uint32 {
	if q == nil {
		return 0
	}
	return q.met
}

// Fenced says whether a fragment that is sent now would wait for an earlier fence.
func (q *Queue[F]) Fenced() bool { return q != nil && q.met != q.set }

// Behind says whether a fragment with that many fences before it has to wait for one.
func (q *Queue[F]) Behind(fences uint32) bool { return q != nil && int32(fences-q.met) > 0 }

// Add adds a call of Flush, with the last fragments that are queued. Sent is the number after all
// sent packets; open says that the last of these is an open pack.
func (q *Queue[F]) Add(fn func(error), after Tails[F], sent seq.Num, open bool) {
	q.entries = append(q.entries, entry[F]{
		fn: fn, after: after, until: sent, sent: sent, open: open, fences: q.set, err: q.untold,
	})
	q.untold = nil
}

// Fence adds a call of Fence, likewise.
func (q *Queue[F]) Fence(after Tails[F], sent seq.Num, open bool) {
	q.entries = append(q.entries, entry[F]{
		fence: true, fences: q.set, after: after, until: sent, sent: sent, open: open,
	})
	q.set++
}

// Last is the number up to which the latest call waits for acknowledgements. False means that there
// is no call, or that it waits for fragments to be sent.
func (q *Queue[F]) Last() (until seq.Num, ok bool) {
	if q.Len() == 0 {
		return 0, false
	}
	e := &q.entries[len(q.entries)-1]
	return e.until, !e.waits()
}

// Done is a call that is complete.
type Done struct {
	Fn    func(error)
	Err   error
	Fence bool
}

// Next takes the first call out if it is done: all numbers before oldest are acknowledged, and for
// a fence no answer of the peer is awaited.
func (q *Queue[F]) Next(oldest seq.Num, answersAwaited bool) (d Done, ok bool) {
	if q.Len() == 0 {
		return d, false
	}
	e := &q.all()[0]
	if e.waits() || oldest.Before(e.until) || e.fence && answersAwaited {
		return d, false
	}
	if e.fence {
		q.met++
	}
	return q.pop(), true
}

// Fail takes the first call out, whether or not it is done.
func (q *Queue[F]) Fail() (d Done, ok bool) {
	if q.Len() == 0 {
		return d, false
	}
	return q.pop(), true
}

// pop takes the first call out. When half of the entries are gone the others move: each moves once
// at most.
func (q *Queue[F]) pop() Done {
	e := &q.entries[q.head]
	d := Done{Fn: e.fn, Err: e.err, Fence: e.fence}
	*e = entry[F]{}
	if q.head++; 2*q.head >= len(q.entries) {
		n := copy(q.entries, q.entries[q.head:])
		clear(q.entries[n:])
		q.entries, q.head = q.entries[:n], 0
	}
	return d
}

// Sent gives the calls that wait for a fragment of a flow, whose last packet was sent, the number
// after that packet. It says whether any now waits for that number alone. The calls stand in the
// order of their fragments, so the loop ends at the first of another fragment.
func (q *Queue[F]) Sent(f F, flow int, until seq.Num) (asks bool) {
	if q == nil {
		return false
	}
	var none F
	for i := range q.all() {
		e := &q.all()[i]
		if e.after[flow] != none && e.after[flow] != f {
			break
		}
		if e.after[flow] == f {
			e.after[flow], e.until = none, until
			asks = asks || !e.waits()
		}
	}
	return asks
}

// Withdrawn has the calls that wait for a fragment, which leaves its queue unsent, wait for the one
// before it.
func (q *Queue[F]) Withdrawn(f, before F) {
	if q == nil {
		return
	}
	for i := range q.all() {
		e := &q.all()[i]
		for k, after := range e.after {
			if after == f {
				e.after[k] = before
			}
		}
	}
}

// Again has the calls that waited for a fragment of a flow, up to a number, wait for it again: it
// is back in its queue, behind another one or, if that is the zero value, in front.
func (q *Queue[F]) Again(f F, flow int, until seq.Num, behind F) {
	if q == nil {
		return
	}
	var none F
	for i := range q.all() {
		e := &q.all()[i]
		after := &e.after[flow]
		if *after == none && until.Before(e.until) || *after != none && *after == behind {
			*after = f
		}
	}
}

// Requeued has each call wait for the last fragments with at most so many fences before them: some
// have changed their flow. A call may then wait for a little more than it must.
func (q *Queue[F]) Requeued(last func(fences uint32) Tails[F]) {
	if q == nil {
		return
	}
	for i := range q.all() {
		e := &q.all()[i]
		e.after = last(e.fences)
	}
}

// Renumber adapts the calls of an endpoint that has sent nothing yet to its first number.
func (q *Queue[F]) Renumber(sent seq.Num) {
	if q == nil {
		return
	}
	for i := range q.all() {
		e := &q.all()[i]
		e.sent, e.until = sent, sent
	}
}

// Refused records messages in packet n that the peer has refused after they were reported done. The
// first flush called after packet n was sent reports them, or else the next call. If a pack was
// open at that call, the refused records may have joined it afterwards: then the next flush reports
// them too.
func (q *Queue[F]) Refused(n seq.Num, messages int, err error) {
	if messages <= 0 {
		return
	}
	q.refused += uint64(messages)
	q.last = err
	for i := range q.all() {
		e := &q.all()[i]
		if e.fence || !n.Before(e.sent) {
			continue
		}
		if e.err = err; !e.open || n != e.sent-1 {
			return
		}
	}
	q.untold = err
}

// Lost has the next flush report an error.
func (q *Queue[F]) Lost(err error) { q.untold = err }

// Refusals is the number of messages that Refused was told of, and the latest reason.
func (q *Queue[F]) Refusals() (messages uint64, last error) {
	if q == nil {
		return 0, nil
	}
	return q.refused, q.last
}

// Check proves that no call is forgotten. Queued says whether a fragment is in a queue, oldest and
// sent bound the numbers in flight.
func (q *Queue[F]) Check(
	oldest, sent seq.Num, answersAwaited bool, queued func(F) bool,
) error {
	if q == nil {
		return nil
	}
	var none F
	for i := range q.all() {
		e := &q.all()[i]
		for _, after := range e.after {
			if after != none && !queued(after) {
				return fmt.Errorf("flush %d waits for a fragment that is not queued", i)
			}
		}
		if sent.Before(e.sent) {
			return fmt.Errorf("flush %d was called when more was sent than has been", i)
		}
		if i == 0 && !e.waits() && !oldest.Before(e.until) && (!e.fence || !answersAwaited) {
			return fmt.Errorf("flush %d is due and will not be called", i)
		}
	}
	if q.met > q.set && int32(q.met-q.set) > 0 {
		return fmt.Errorf("%d fences are met of %d", q.met, q.set)
	}
	return nil
}
