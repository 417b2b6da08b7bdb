package peer

import (
	"fmt"

	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Sent follows the packets in flight until they are acknowledged, refused, or given up.
type Sent struct {
	*Services
	done []reliability.Token // packets of the ACK that is being processed
}

// OnAck handles the acknowledgement in the header h of a packet that the peer of ep has
// sent. The argument old of onAck is true if a newer acknowledgement from the same peer may
// already have been handled. OnAck returns false if the acknowledgement covers a packet
// that was never sent.
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

// afterAck frees the send buffers of the packets in done, which an acknowledgement covers. afterAck
// returns false if the acknowledgement covers a packet that was never sent. Some packets are held
// back as a test. If a peer acknowledges a packet that was held back, its endpoint ends with
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
		ep.Snd.BoundBytes(h.Ack, h.Credit, grantedBytes(h.CreditBytes), ep.Pack.Open())
	}
	oldest, _ := ep.Snd.Window()
	ep.Life.OldestIs(st.Clock.Unpaused, oldest)
	if len(done) > 0 {
		if f := ep.byeAhead; f != nil && ep.Snd.InFlight() == 0 {
			ep.byeAhead = nil
			st.SegEnded(f)
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

// unitsOf converts a byte credit to the units of an acknowledgement, at least 1.
func unitsOf(bytes int) uint16 {
	if bytes >= frag.CreditBytesUnit*frag.CreditBytesAll {
		return frag.CreditBytesAll
	}
	return uint16(max(bytes/frag.CreditBytesUnit, 1))
}

// ackedAll frees the send buffers of the packets in done, which an acknowledgement covers.
func (st *Sent) ackedAll(ep *Endpoint, done []reliability.Token) {
	var f *Fragment
	chunks, bytes := uint32(0), 0
	for _, t := range done {
		s := &st.Buffers.Segs[t]
		bytes += int(s.Bytes)
		if s.Frag == nil || !s.Frag.large || s.pack || s.Frag.IsBye() || st.Port.Busy(SegBuf(t)) {
			st.chunksEnded(f, chunks)
			f, chunks = nil, 0
			st.acked(t)
			continue
		}
		if s.Frag != f {
			st.chunksEnded(f, chunks)
			f, chunks = s.Frag, 0
		}
		chunks++
		*s = SendSegment{}
		st.Buffers.giveSeg(ep, t)
	}
	st.chunksEnded(f, chunks)
	ep.Snd.Carry(-bytes)
}

// acked frees the send buffer of packet t, which is no longer in flight.
func (st *Sent) acked(t reliability.Token) {
	s := &st.Buffers.Segs[t]
	f, begins, pack := s.Frag, s.begins, s.pack
	if !st.Port.Busy(SegBuf(t)) { // the usual case
		ep := s.Ep
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
		st.SegEnded(begins)
	case f != nil && f.IsBye() && f.Ep.Snd.InFlight() > 0:
		f.Ep.byeAhead = f // the Bye waits until all earlier packets are acknowledged
	default:
		st.SegEnded(f)
	}
}

// SegEnded subtracts one acknowledged packet from the fragment's packets in flight. The fragment
// ends with its last packet.
func (st *Sent) SegEnded(f *Fragment) {
	if f != nil {
		st.chunksEnded(f, 1)
	}
}

// chunksEnded subtracts several acknowledged packets from the fragment's packets in flight.
func (st *Sent) chunksEnded(f *Fragment, chunks uint32) {
	if chunks == 0 {
		return
	}
	if f.Out -= chunks; f.Out == 0 && f.State == FragSent {
		st.complete(f, f.Err)
	}
}

// complete ends a successful send. The OnDone function of the fragment is called later in the same
// call of Progress, after all protocol state is updated.
func (st *Sent) complete(f *Fragment, err error) {
	f.State, f.Err = fragEnded, err
	if f.Op != nil && !f.Answer {
		st.endOp(f)
	}
	st.Frags.Payloads.Drop(&f.Data)
	if f.Answer {
		st.Frags.giveAnswer(f)
		return
	} else if f.IsBye() {
		// No caller waits for a Bye.
	} else if err == nil {
		st.Count[stats.CntDone]++
	} else {
		st.Count[stats.CntFailed]++
	}
	st.Outbox.Push(f)
}

// OnNack handles a Nack, with which the peer refuses a packet, and ends the fragment of the
// packet with an error. An empty packet takes over the sequence number of the refused packet,
// because the peer must still receive this number. OnNack returns false if the Nack is invalid,
// for example if the packet is not in flight.
func (st *Sent) OnNack(ep *Endpoint, h *frag.Header, payload []byte) bool {
	t, ok := ep.Snd.Token(h.Seq)
	if !ok || ep.Snd.Withheld(h.Seq) {
		return false
	}
	if h.Tag == frag.NackMemory { // a timer retransmits the packet
		st.answeredBy(ep, t)
		ep.Snd.NoMemory(st.Clock.Now, t, int(st.Buffers.Segs[t].Bytes), st.Config.PeerTimeout/4)
		st.Sched.Rearm(ep)
		return true
	}
	if h.Tag == frag.NackRecord {
		return st.onNackRecord(ep, t, payload[0])
	}
	s := &st.Buffers.Segs[t]
	before := s.void
	s.void = true
	ep.Snd.Refuse(t)
	st.Sched.Rearm(ep)
	f := s.Frag
	err := f.accessError(h.Tag)
	if h.Tag == frag.NackNoHandler {
		err = ErrNoHandler
	}
	if !before {
		ep.FlushQueue().Refused(h.Seq, st.toldDone(t), err)
	}
	if s.pack { // a correct peer would refuse single fragments of the packet
		for ; f != nil; f = f.Next {
			if f.Err == nil {
				f.Err = err
			}
			st.unanswered(f)
		}
		f = s.begins
	}
	if f == nil || f.Err != nil {
		return true
	}
	f.Err = err
	st.unanswered(f)
	if f.State == FragQueued { // the unsent packets of the fragment are dropped
		st.Sender.unqueue(ep, f)
		st.Sched.Rearm(ep)
	}
	return true
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
		return frag.NumberOf(st.Port.Arena.Bytes(SegBuf(t))) == number
	}
	return ep.Numbers.Sent(number, viaCommand) || ep.Numbers.Sent(number, ViaData)
}
