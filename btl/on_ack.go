package btl

import (
	"fmt"

	"gobtl/frag"
	"gobtl/reliability"
)

// onAck handles the acknowledgement in the header h of a packet that the peer of ep has
// sent. The argument old of onAck is true if a newer acknowledgement from the same peer may
// already have been handled. onAck returns false if the acknowledgement covers a packet
// that was never sent.
func (m *Module) onAck(ep *Endpoint, h *frag.Header, old bool) bool {
	dup := old || h.Flags&frag.FlagDup != 0
	done, verdict := ep.snd.OnAck(m.clock.Now, h.Ack, h.Credit, dup, m.done[:0])
	return m.afterAck(ep, h, done, verdict)
}

// afterAck frees the send buffers of the packets in done, which an acknowledgement covers. afterAck
// returns false if the acknowledgement covers a packet that was never sent. Some packets are held
// back as a test, and a peer that acknowledges one of them cheats and its endpoint ends with
// ErrBroken.
func (m *Module) afterAck(ep *Endpoint, h *frag.Header, done []reliability.Token,
	verdict reliability.AckVerdict,
) bool {
	m.done = done[:0] // OnAck may have grown the slice
	if verdict == reliability.AckBogus {
		return false
	}
	if verdict == reliability.AckLie {
		m.endTelling(ep, frag.ByeBroken, EventFailed,
			fmt.Errorf("%w: it acknowledges a packet that was withheld", ErrBroken))
		return false
	}
	if verdict == reliability.AckDuplicate {
		m.stats.counters[CntDupAcks]++
	}
	if ep.path.WantsDelivered() {
		m.pathCarried(ep, done)
	}
	m.ackedAll(ep, done)
	if verdict != reliability.AckOld {
		ep.snd.BoundBytes(h.Ack, h.Credit, grantedBytes(h.CreditBytes), ep.pack.Open())
	}
	oldest, _ := ep.snd.Window()
	ep.life.OldestIs(m.clock.Unpaused, oldest)
	if len(done) > 0 {
		if f := ep.byeAhead; f != nil && ep.snd.InFlight() == 0 {
			ep.byeAhead = nil
			m.segEnded(f)
		}
		ep.life.Acked(m.clock.Unpaused)
		ep.checkFlushed()
	}
	m.sched.rearm(ep)
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
func (m *Module) ackedAll(ep *Endpoint, done []reliability.Token) {
	var f *Fragment
	chunks, bytes := uint32(0), 0
	for _, t := range done {
		s := &m.segs[t]
		bytes += int(s.bytes)
		if s.frag == nil || !s.frag.large || s.pack || s.frag.isBye() || m.port.Busy(segBuf(t)) {
			m.chunksEnded(f, chunks)
			f, chunks = nil, 0
			m.acked(t)
			continue
		}
		if s.frag != f {
			m.chunksEnded(f, chunks)
			f, chunks = s.frag, 0
		}
		chunks++
		*s = sendSegment{}
		m.giveSeg(ep, t)
	}
	m.chunksEnded(f, chunks)
	ep.snd.Carry(-bytes)
}

// acked frees the send buffer of packet t, which is no longer in flight.
func (m *Module) acked(t reliability.Token) {
	s := &m.segs[t]
	f, begins, pack := s.frag, s.begins, s.pack
	if !m.port.Busy(segBuf(t)) { // the usual case
		ep := s.ep
		*s = sendSegment{}
		m.giveSeg(ep, t)
	} else if m.keepGathered(t) {
		return
	} else {
		m.release(t)
	}
	switch {
	case pack:
		m.chainEnded(f, nil)
		m.segEnded(begins)
	case f != nil && f.isBye() && f.ep.snd.InFlight() > 0:
		f.ep.byeAhead = f // the Bye waits until all earlier packets are acknowledged
	default:
		m.segEnded(f)
	}
}

// segEnded subtracts one acknowledged packet from the fragment's packets in flight. The fragment
// ends with its last packet.
func (m *Module) segEnded(f *Fragment) {
	if f != nil {
		m.chunksEnded(f, 1)
	}
}

// chunksEnded subtracts several acknowledged packets from the fragment's packets in flight.
func (m *Module) chunksEnded(f *Fragment, chunks uint32) {
	if chunks == 0 {
		return
	}
	if f.out -= chunks; f.out == 0 && f.state == fragSent {
		m.complete(f, f.err)
	}
}

// complete ends a successful send. The OnDone function of the fragment is called later in the same
// call of Progress, after all protocol state is updated.
func (m *Module) complete(f *Fragment, err error) {
	f.state, f.err = fragEnded, err
	if f.op != nil && !f.answer {
		m.endOp(f)
	}
	m.frags.payloads.Drop(&f.data)
	if f.answer {
		m.giveAnswer(f)
		return
	} else if f.isBye() {
		// No caller waits for a Bye.
	} else if err == nil {
		m.stats.counters[CntDone]++
	} else {
		m.stats.counters[CntFailed]++
	}
	m.outbox.push(f)
}

// onNack handles a Nack, with which the peer refuses a packet, and ends the fragment of the
// packet with an error. An empty packet takes over the sequence number of the refused packet,
// because the peer must still receive this number. onNack returns false if the Nack is invalid,
// for example if the packet is not in flight.
func (m *Module) onNack(in *arrival) bool {
	ep, h := in.ep, &in.Header
	t, ok := ep.snd.Token(h.Seq)
	if !ok || ep.snd.Withheld(h.Seq) {
		return false
	}
	if h.Tag == frag.NackMemory { // a timer retransmits the packet
		m.answeredBy(ep, t)
		ep.snd.NoMemory(m.clock.Now, t, int(m.segs[t].bytes), m.cfg.PeerTimeout/4)
		m.sched.rearm(ep)
		return true
	}
	if h.Tag == frag.NackRecord {
		return m.onNackRecord(ep, t, in.payload[0])
	}
	s := &m.segs[t]
	before := s.void
	s.void = true
	ep.snd.Refuse(t)
	m.sched.rearm(ep)
	f := s.frag
	err := f.accessError(h.Tag)
	if h.Tag == frag.NackNoHandler {
		err = ErrNoHandler
	}
	if !before {
		ep.flushQueue().Refused(h.Seq, m.toldDone(t), err)
	}
	if s.pack { // a correct peer would refuse single fragments of the packet
		for ; f != nil; f = f.next {
			if f.err == nil {
				f.err = err
			}
			m.unanswered(f)
		}
		f = s.begins
	}
	if f == nil || f.err != nil {
		return true
	}
	f.err = err
	m.unanswered(f)
	if f.state == fragQueued { // the unsent packets of the fragment are dropped
		m.unqueue(ep, f)
		m.sched.rearm(ep)
	}
	return true
}
