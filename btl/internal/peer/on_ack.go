package peer

import (
	"fmt"

	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Sent handles the packets in flight until they are acknowledged, refused, or given up.
type Sent struct {
	*Services
	done []reliability.Token // packets of the ACK that is being processed
}

// OnAck handles the acknowledgement in the header h of a packet that the peer of ep has sent. The
// argument "old" of OnAck is true if a newer acknowledgement from the same peer may already have
// been handled. OnAck returns false if the acknowledgement covers a packet that was never sent.
func (st *Sent) OnAck(ep *Endpoint, h *frag.Header, old bool) bool {
	dup := old || h.Flags&frag.FlagDup != 0
	done, verdict := ep.Snd.OnAck(st.Clock.Now, h.Ack, h.Credit, dup, st.done[:0])
	return st.afterAck(ep, h, done, verdict)
}

// OnSack handles the selective acknowledgement s in a packet with the header h. OnSack returns
// false if the acknowledgement is invalid.
func (st *Sent) OnSack(ep *Endpoint, h *frag.Header, s *reliability.Sack) bool {
	done, verdict := ep.Snd.OnSack(st.Clock.Now, h.Ack, h.Credit, s, st.done[:0])
	return st.afterAck(ep, h, done, verdict)
}

// afterAck frees the send buffers of the acknowledged packets in "done". afterAck returns false if
// the acknowledgement covers a packet that was never sent. The endpoint ends with ErrBroken if the
// peer acknowledges a withheld packet, which got a number but was not sent, to detect such peers.
func (st *Sent) afterAck(ep *Endpoint, h *frag.Header, done []reliability.Token,
	verdict reliability.AckVerdict,
) bool {
	st.done = done[:0] // OnAck may have grown the slice
	if verdict == reliability.AckBogus {
		return false
	}
	if verdict == reliability.AckLie {
		st.Endings.EndTelling(ep, frag.ByeBroken, EventFailed,
			fmt.Errorf("%w: it acknowledges a packet that was withheld", ErrBroken))
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
		ep.Snd.BoundBytes(h.Ack, h.Credit, grantedBytes(h.CreditBytes), ep.pack.Open())
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

func grantedBytes(units uint16) int {
	if units == frag.CreditBytesAll {
		return reliability.NoBytesBound
	}
	return int(units) * frag.CreditBytesUnit
}

// unitsOf converts a credit in bytes to the unit of the header's credit field. The result of
// unitsOf is at least 1.
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
		f.Ep.needEnding().byeAhead = f // the Bye waits until all earlier packets are acknowledged
	default:
		st.chunksEnded(f, 1)
	}
}

// chunksEnded subtracts the acknowledged chunks from the number of packets in flight of fragment f,
// which may be nil. At 0, the fragment ends.
func (st *Sent) chunksEnded(f *Fragment, chunks uint32) {
	if f == nil || chunks == 0 {
		return
	}
	if f.out -= chunks; f.out == 0 && f.state == fragSent {
		st.complete(f, f.Err)
	}
}

// The method "complete" ends a send, which has failed if err is not nil. The OnDone function of an
// ended fragment is called later in the same call of Progress, after all protocol state is updated.
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

// OnNack handles a Nack, with which the peer refuses a packet, and ends the fragment of the packet
// with an error. An empty packet takes over the sequence number of the refused packet, because the
// peer must still receive this number. OnNack ignores a Nack for a packet that is not in flight, a
// Nack for an empty packet, and a Nack for lack of memory for a packet that needs no memory. No
// peer has a reason for these Nacks, and a peer that repeats them does not acknowledge the packet,
// and finally counts as dead.
func (st *Sent) OnNack(ep *Endpoint, h *frag.Header, payload []byte) {
	t, ok := ep.Snd.Token(h.Seq)
	if !ok || ep.Snd.Withheld(h.Seq) || st.Buffers.segs[t].void {
		return
	}
	if h.Tag == frag.NackMemory { // a timer retransmits the packet
		if !st.Buffers.segs[t].needsMemory() {
			return
		}
		st.answeredBy(ep, t)
		ep.Snd.NoMemory(st.Clock.Now, t, int(st.Buffers.segs[t].bytes), st.Config.PeerTimeout/4)
		st.Sched.Rearm(ep)
		return
	}
	if h.Tag == frag.NackRecord {
		st.onNackRecord(ep, t, payload[0])
		return
	}
	s := &st.Buffers.segs[t]
	s.void = true
	ep.Snd.Refuse(t)
	st.Sched.Rearm(ep)
	f := s.frag
	err := f.accessError(h.Tag)
	if h.Tag == frag.NackNoHandler {
		err = ErrNoHandler
	}
	ep.flushQueue().Refused(h.Seq, st.toldDone(t), err)
	if s.pack { // a correct peer would refuse single fragments of the packet
		for ; f != nil; f = f.next {
			if f.Err == nil {
				f.Err = err
			}
			st.unanswered(f)
		}
		f = s.begins
	}
	if f == nil || f.Err != nil {
		return
	}
	f.Err = err
	st.unanswered(f)
	if f.state == fragQueued { // the unsent packets of the fragment are dropped
		st.Sender.unqueue(ep, f)
		st.Sched.Rearm(ep)
	}
}

func (st *Sent) init() {
	st.done = make([]reliability.Token, 0, min(st.Rules.WindowPackets, reliability.WindowDefault))
}

// WasNumberOf reports whether a packet number may belong to a transmission of the packet
// with sequence number n. For a packet in flight that was sent once, WasNumberOf accepts
// only its actual packet number. WasNumberOf detects acknowledgements of packets that the
// peer has not received, because packet numbers are skipped at random. For a retransmitted
// or acknowledged packet, any used packet number of either channel is valid, because any of
// its transmissions may have arrived.
func (st *Sent) WasNumberOf(ep *Endpoint, n seq.Num, number uint32) bool {
	if t, ok := ep.Snd.Token(n); ok && st.Recovery.Resends(t) == 0 {
		return frag.NumberOf(st.Port.Arena.Bytes(fabric.Buf(t))) == number
	}
	return ep.Numbers.Sent(number, viaCommand) || ep.Numbers.Sent(number, ViaData)
}
