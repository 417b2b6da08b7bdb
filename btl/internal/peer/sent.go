package peer

import (
	"fmt"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Sent handles the packets in flight until they are acknowledged, refused, or given up. The methods
// of Sent for acknowledged packets, and for the fragments in these packets, are in this file. The
// methods of Sent for retransmitted packets and for refused packets are in resend.go.
type Sent struct {
	*Services
	done []reliability.Token // packets of the ACK that is being processed
}

// OnAck handles the acknowledgement in the header h of a packet that the peer of ep has sent. The
// argument "old" of OnAck says whether a newer acknowledgement from the same peer has possibly been
// handled already. OnAck reports whether the acknowledgement is valid, which means that it covers
// only packets that were sent.
func (st *Sent) OnAck(ep *Endpoint, h *frag.Header, old bool) bool {
	dup := old || h.Flags&frag.FlagDup != 0
	done, verdict := ep.Snd.OnAck(st.Clock.Now, h.Ack, h.Credit, dup, st.done[:0])
	return st.afterAck(ep, h, done, verdict)
}

// OnSack handles the selective acknowledgement s in a packet with the header h, and reports whether
// the acknowledgement is valid.
func (st *Sent) OnSack(ep *Endpoint, h *frag.Header, s *reliability.Sack) bool {
	done, verdict := ep.Snd.OnSack(st.Clock.Now, h.Ack, h.Credit, s, st.done[:0])
	return st.afterAck(ep, h, done, verdict)
}

// afterAck frees the send buffers of the acknowledged packets in "done", and reports whether the
// acknowledgement covers only packets that were sent. If the peer acknowledges a packet that was
// held back (numbered but not sent, as a test for optimistic ACKs), the endpoint ends with
// ErrBroken.
func (st *Sent) afterAck(ep *Endpoint, h *frag.Header, done []reliability.Token,
	verdict reliability.AckVerdict,
) bool {
	st.done = done[:0] // OnAck may have grown the slice
	if verdict == reliability.AckBogus {
		return false
	}
	if verdict == reliability.AckLie {
		st.Endings.EndTelling(ep, frag.ByeBroken, EventFailed,
			fmt.Errorf("%w: it acknowledges a packet that was withheld", errs.ErrBroken))
		return false
	}
	if verdict == reliability.AckDuplicate {
		st.Count[stats.CntDupAcks]++
	}
	if ep.Path.WantsDelivered() {
		st.pathCarried(ep, done)
	}
	st.ackedAll(ep, done)
	if verdict != reliability.AckOld {
		ep.Snd.BoundBytes(h.Ack, h.Credit, grantedBytes(h.CreditBytes))
	}
	oldest, _ := ep.Snd.Window()
	ep.Life.OldestIs(st.Clock.Unpaused, oldest)
	if len(done) > 0 {
		if e := ep.ending; e != nil && e.byeAhead != nil && ep.Snd.InFlight() == 0 {
			bye := e.byeAhead
			e.byeAhead = nil
			st.chunksEnded(bye, 1)
		}
		ep.Life.Acked(st.Clock.Unpaused)
		st.Flushes.checkFlushed(ep)
	}
	st.Sched.Rearm(ep)
	return true
}

// pathCarried passes newly acknowledged packets to the path MTU search. pathCarried ignores
// retransmitted packets, because their ACK does not tell which transmission arrived.
func (st *Sent) pathCarried(ep *Endpoint, done []reliability.Token) {
	stage := ep.Path.Stage
	for _, t := range done {
		if s := &st.Buffers.segs[t]; !s.parted && st.Recovery.Resends(t) == 0 {
			ep.Path.Delivered(st.Clock.Now, st.Recovery.PostedAt(t), int(s.bytes),
				st.Port.Uncoalesced[fabric.Buf(t)])
		}
	}
	if ep.Path.Stage != stage {
		st.Timers.Paths.GoOn(ep)
	}
}

func grantedBytes(units uint16) int {
	if units == frag.CreditBytesAll {
		return reliability.NoBytesBound
	}
	return int(units) * frag.CreditBytesUnit
}

// unitsOf converts a credit in bytes to the unit of the header's credit field. A credit below one
// unit counts as one unit.
func unitsOf(bytes int) uint16 {
	if bytes >= frag.CreditBytesUnit*frag.CreditBytesAll {
		return frag.CreditBytesAll
	}
	return uint16(max(bytes/frag.CreditBytesUnit, 1))
}

// ackedAll frees the send buffers of the acknowledged packets in "done".
func (st *Sent) ackedAll(ep *Endpoint, done []reliability.Token) {
	var f *Fragment
	chunks, bytes := uint32(0), 0
	for _, t := range done {
		s := &st.Buffers.segs[t]
		bytes += int(s.bytes)
		if s.frag == nil || !s.frag.large || s.pack || s.frag.isBye() ||
			st.Port.State[fabric.Buf(t)]&port.Busy != 0 {
			st.chunksEnded(f, chunks)
			f, chunks = nil, 0
			st.acked(t)
			continue
		}
		if s.frag != f {
			st.chunksEnded(f, chunks)
			f, chunks = s.frag, 0
		}
		chunks++
		*s = SendSegment{}
		st.Buffers.giveSeg(ep, t)
	}
	st.chunksEnded(f, chunks)
	ep.Snd.Carry(-bytes)
}

// The method "acked" frees the send buffer of packet t, which is no longer in flight.
func (st *Sent) acked(t reliability.Token) {
	s := &st.Buffers.segs[t]
	f, begins, pack := s.frag, s.begins, s.pack
	if st.Port.State[fabric.Buf(t)]&port.Busy == 0 { // the usual case
		ep := s.ep
		*s = SendSegment{}
		st.Buffers.giveSeg(ep, t)
	} else if st.Buffers.keepGathered(t) {
		return
	} else {
		st.Buffers.release(t)
	}
	switch {
	case pack:
		st.chainEnded(f, nil)
		st.chunksEnded(begins, 1)
	case f != nil && f.isBye() && f.Ep.Snd.InFlight() > 0:
		f.Ep.needEnding().byeAhead = f // the Bye ends when all packets before it are acknowledged
	default:
		st.chunksEnded(f, 1)
	}
}

// OnConfirm handles an Ack over a reliable fabric, and ends the sends that are acknowledged.
func (st *Sent) OnConfirm(ep *Endpoint, h *frag.Header) {
	ep.Life.Confirmed()
	if ep.Snd.Confirm(st.Clock.Now, h.Ack, h.Credit) {
		ep.Life.Acked(st.Clock.Unpaused)
		ep.Counts.nacks.acked(h.Ack)
		for f := ep.Counts.confirm.first; f != nil && !h.Ack.Before(f.until); {
			if f.large && !f.put {
				ep.Counts.pause.Succeeded()
			}
			st.chunksEnded(ep.Counts.confirmed(), 1)
			f = ep.Counts.confirm.first
		}
		st.Flushes.checkFlushed(ep)
	}
	st.Sched.Rearm(ep)
}

// chunksEnded subtracts the acknowledged chunks from the number of packets in flight of fragment f,
// which may be nil. A fragment without packets in flight ends.
func (st *Sent) chunksEnded(f *Fragment, chunks uint32) {
	if f == nil || chunks == 0 {
		return
	}
	if f.out -= chunks; f.out == 0 && f.state == fragSent {
		st.complete(f, f.Err)
	}
}

// chainEnded ends the sends of fragment f and of the fragments linked to f by the field "next",
// which were in the same packet. If the argument err of chainEnded is not nil, it becomes the error
// of each ended fragment.
func (st *Sent) chainEnded(f *Fragment, err error) {
	for f != nil {
		next := f.next
		if err != nil {
			f.Err = err
		}
		st.chunksEnded(f, 1)
		f = next
	}
}

// The method "complete" ends a send, which has succeeded if err is nil, and has failed otherwise.
// The OnDone function of an ended fragment is called at the end of the same call of Progress, after
// all protocol state is updated.
func (st *Sent) complete(f *Fragment, err error) {
	f.state, f.Err = fragEnded, err
	if f.Op != nil && !f.answer {
		st.endOp(f)
	}
	st.Frags.Payloads.Drop(&f.Data)
	if f.answer {
		st.Frags.giveAnswer(f)
		return
	} else if f.isBye() {
		// No caller waits for a Bye.
	} else if err == nil {
		st.Count[stats.CntDone]++
	} else {
		st.Count[stats.CntFailed]++
	}
	st.Outbox.push(f)
}

// endOp is called when a fragment is complete or cancelled, and removes the references to the
// memory operation that the fragment carried.
func (st *Sent) endOp(f *Fragment) {
	if ep := f.Ep; st.Remote.End(ep.Remote, f.Op) && ep.Err() == nil {
		st.Sched.Rearm(ep)
	}
}

// The method "unanswered" ends the wait of a memory operation for its reply.
func (st *Sent) unanswered(f *Fragment) {
	if f.Op == nil || !f.Ep.Remote.Answered(f.Op) {
		return
	}
	st.Rest.AskEnded = true
	ep := f.Ep
	st.chunksEnded(f, 1)
	if ep.Err() == nil {
		st.Flushes.checkFlushed(ep)
		st.Sched.Rearm(ep) // a Bye possibly waits for the reply
	}
}

// GotAnswer records that the reply to a memory operation has arrived. The argument "whole" of
// GotAnswer says whether the reply contains all bytes of a get, so that the get ends without an
// acknowledgement of the request.
func (st *Sent) GotAnswer(o *Operation, whole bool) {
	f := o.Fragment
	if whole {
		st.needsNoAck(f)
	}
	st.unanswered(f)
}

// needsNoAck lets a get whose reply has arrived end before the acknowledgement of its request. The
// request of a get never shares its packet.
func (st *Sent) needsNoAck(f *Fragment) {
	if f.Ep.ID.Counted || f.state != fragSent {
		return
	}
	if s := &st.Buffers.segs[f.seg]; s.frag == f {
		s.frag = nil
		st.chunksEnded(f, 1)
	}
}

// abandon ends the sent but unacknowledged fragments of an ended endpoint, with the error err.
func (st *Sent) abandon(ep *Endpoint, err error) {
	if ep.ID.Counted {
		st.abandonCounted(ep, err)
		return
	}
	done := ep.Snd.Abort(st.done[:0])
	st.done = done[:0] // the slice may have grown
	for _, t := range done {
		st.failSeg(t, err)
	}
}

func (st *Sent) abandonCounted(ep *Endpoint, err error) {
	ep.Snd.Forget()
	for f := ep.Counts.confirmed(); f != nil; f = ep.Counts.confirmed() {
		f.Err = err
		st.chunksEnded(f, 1)
	}
}

// failSeg gives up a packet in flight of an ended endpoint. The fragments in the packet end with
// the error err.
func (st *Sent) failSeg(t reliability.Token, err error) {
	f, begins, pack := st.Buffers.segs[t].frag, st.Buffers.segs[t].begins, st.Buffers.segs[t].pack
	if pack {
		if begins != nil {
			begins.Err = err
		}
		st.Buffers.release(t)
		st.chainEnded(f, err)
		st.chunksEnded(begins, 1)
		return
	}
	if f != nil {
		f.Err = err
	}
	if st.Buffers.keepGathered(t) {
		return
	}
	st.Buffers.release(t)
	st.chunksEnded(f, 1)
}

func (st *Sent) init() {
	st.done = make([]reliability.Token, 0, min(st.Rules.WindowPackets, reliability.WindowDefault))
}

// WasNumberOf reports whether a packet number is possibly that of a transmission of the packet with
// sequence number n. For a packet in flight that was sent once, WasNumberOf accepts only the packet
// number of this transmission. Because packet numbers are skipped at random, WasNumberOf detects
// peers that acknowledge packets which they have not received. For a retransmitted or acknowledged
// packet, every used packet number of either channel is accepted, because it is not known which
// transmission has arrived.
func (st *Sent) WasNumberOf(ep *Endpoint, n seq.Num, number uint32) bool {
	if t, ok := ep.Snd.Token(n); ok && st.Recovery.Resends(t) == 0 {
		return frag.NumberOf(st.Port.Arena.Bytes(fabric.Buf(t))) == number
	}
	return ep.Numbers.Sent(number, viaCommand) || ep.Numbers.Sent(number, ViaData)
}
