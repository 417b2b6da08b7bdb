package flush

import (
	"fmt"

	"gobtl/internal/fifo"
	"gobtl/internal/seq"
)

// Flows is the number of send queues (flows) of an endpoint, one for small and one for large
// fragments.
const Flows = 2

// Tails holds the last queued fragment of each flow, or the zero value for a flow without queued
// fragments.
type Tails[F any] [Flows]F

// entry is a pending call of Flush or Fence.
type entry[F comparable] struct {
	fn     func(error)
	after  Tails[F] // last queued fragments for whose sending the call waits
	until  seq.Num  // the call waits for the ACK of all packets below this number
	sent   seq.Num  // packets sent before the call have numbers below this one
	open   bool     // messages can still be added to the last packet before the call
	fence  bool     // the call is a fence, without a callback
	fences uint32   // calls of Fence before this one
	err    error    // the peer refused a message sent before the call
}

// The method "waits" reports whether fragments that were queued before the flush or fence are still
// unsent.
func (e *entry[F]) waits() bool {
	var none F
	return e.after[0] != none || e.after[1] != none
}

// Queue holds the pending calls of an endpoint, whose fragments have the type F. The calls of Flush
// and Fence complete in the order in which they were made. A nil Queue is empty, and only the
// methods that change nothing may be called on it.
type Queue[F comparable] struct {
	entries  fifo.List[entry[F]]
	set, met uint32 // number of fences called, and of fences complete
	refused  uint64 // messages that the peer has refused after Send had reported them as done
	last     error  // the reason for the latest refusal
	untold   error  // the error that the next flush reports
}

// Len returns the number of pending calls of Flush and Fence.
func (q *Queue[F]) Len() int {
	if q == nil {
		return 0
	}
	return q.entries.Len()
}

// The method "all" returns the pending calls, oldest first.
func (q *Queue[F]) all() []entry[F] { return q.entries.All() }

// Set returns the number of calls of Fence so far. A fragment that is queued after n calls of Fence
// is sent only when n fences are complete.
func (q *Queue[F]) Set() uint32 {
	if q == nil {
		return 0
	}
	return q.set
}

// Met returns the number of fences that are complete.
func (q *Queue[F]) Met() uint32 {
	if q == nil {
		return 0
	}
	return q.met
}

// Fenced reports whether a fence is pending, for which the next queued fragment must wait.
func (q *Queue[F]) Fenced() bool { return q != nil && q.met != q.set }

// Behind reports whether a fragment that was queued after the given number of calls of Fence still
// waits for the completion of one of these fences.
func (q *Queue[F]) Behind(fences uint32) bool { return q != nil && int32(fences-q.met) > 0 }

// Add adds a call of Flush. The argument "after" of Add contains the last queued fragment of each
// flow, and the flush waits until these fragments are sent. The argument "sent" of Add is the
// endpoint's next unused sequence number. The argument "open" of Add says whether the last sent
// packet is a Pack (several small messages) to which more messages can still be added.
func (q *Queue[F]) Add(fn func(error), after Tails[F], sent seq.Num, open bool) {
	q.entries.Push(entry[F]{
		fn: fn, after: after, until: sent, sent: sent, open: open, fences: q.set, err: q.untold,
	})
	q.untold = nil
}

// Fence adds a call of Fence, with the same arguments as Add.
func (q *Queue[F]) Fence(after Tails[F], sent seq.Num, open bool) {
	q.entries.Push(entry[F]{
		fence: true, fences: q.set, after: after, until: sent, sent: sent, open: open,
	})
	q.set++
}

// Last returns the sequence number below which all packets must be acknowledged to complete the
// latest call of Flush or Fence. The result "ok" of Last is false if no call of Flush or Fence is
// pending, or if the latest call still waits for the sending of queued fragments, and true
// otherwise.
func (q *Queue[F]) Last() (until seq.Num, ok bool) {
	if q.Len() == 0 {
		return 0, false
	}
	e := &q.all()[q.Len()-1]
	return e.until, !e.waits()
}

// Done describes a completed call of Flush or Fence.
type Done struct {
	Fn    func(error)
	Err   error
	Fence bool
}

// Next removes and returns the oldest call of Flush or Fence, if this call is complete. The result
// "ok" of Next says whether the oldest call was complete. A call of Flush is complete when the peer
// has acknowledged all packets that were sent or queued before the call. The argument "oldest" of
// Next is the first unacknowledged sequence number. A fence is complete when the peer has
// acknowledged all packets from before the fence, and has answered all memory operations.
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

// Fail removes and returns the oldest call of Flush or Fence, even if the call is not complete.
func (q *Queue[F]) Fail() (d Done, ok bool) {
	if q.Len() == 0 {
		return d, false
	}
	return q.pop(), true
}

// pop removes and returns the oldest pending call of Flush or Fence.
func (q *Queue[F]) pop() Done {
	e, _ := q.entries.Pop()
	return Done{Fn: e.fn, Err: e.err, Fence: e.fence}
}

// Sent records that the last packet of fragment f was sent. The argument "until" of Sent is the
// sequence number after the last packet of f. After Sent, a call of Flush or Fence that waited for
// the sending of fragment f waits until all packets with sequence numbers below "until" are
// acknowledged. The result "asks" of Sent says whether at least one call of Flush or Fence now
// waits only for acknowledgements.
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

// Withdrawn records that fragment f was removed from its queue without being sent. After Withdrawn,
// a call of Flush or Fence that waited for the sending of fragment f waits for the fragment before
// f in the queue, which is the argument "before".
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

// Again records that fragment f is queued for a second time. The argument "until" of Again is the
// sequence number of the last packet of fragment f. The argument "behind" of Again is the fragment
// before f in the queue, or the zero value if f is the first fragment.
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

// Requeued must be called after fragments have moved between the two flows (send queues), because
// each pending call of Flush or Fence waits for the last fragment that was queued before it in each
// flow. The function "last" returns, for each flow, the last fragment that was queued after at most
// "fences" calls of Fence.
func (q *Queue[F]) Requeued(last func(fences uint32) Tails[F]) {
	if q == nil {
		return
	}
	for i := range q.all() {
		e := &q.all()[i]
		e.after = last(e.fences)
	}
}

// Renumber sets the sequence number for which each pending call waits to "sent", which is the
// endpoint's first sequence number. The caller may call Renumber only before the endpoint has sent
// its first packet.
func (q *Queue[F]) Renumber(sent seq.Num) {
	if q == nil {
		return
	}
	for i := range q.all() {
		e := &q.all()[i]
		e.sent, e.until = sent, sent
	}
}

// Refused records messages of packet n that the peer has refused after their sends were reported as
// done. The oldest pending flush that was called after the sending of packet n returns the error of
// the refused messages. If no pending flush was called after the sending of packet n, the next call
// of Flush returns the error of the refused messages. If a flush was called while more messages
// could still be added to packet n, both this flush and the flush after it return the error of the
// refused messages.
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

// Lost makes the next call of Flush report the error err.
func (q *Queue[F]) Lost(err error) { q.untold = err }

// Refusals returns the number of messages whose refusal Refused has recorded, and the error of the
// latest refusal.
func (q *Queue[F]) Refusals() (messages uint64, last error) {
	if q == nil {
		return 0, nil
	}
	return q.refused, q.last
}

// Check verifies that every pending call waits for an event that can still occur.
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
