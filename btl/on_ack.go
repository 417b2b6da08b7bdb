package btl

import (
	"fmt"

	"gobtl/frag"
	"gobtl/reliability"
)

// onAck processes the ACK on a packet; old says that it may be outdated. It returns false if the
// ACK covers packets that were never sent.
func (m *Module) onAck(ep *Endpoint, h *frag.Header, old bool) bool {
	dup := old || h.Flags&frag.FlagDup != 0
	done, verdict := ep.snd.OnAck(m.now, h.Ack, h.Credit, dup, m.done[:0])
	return m.afterAck(ep, h, done, verdict)
}

// afterAck processes the segments that an ACK has freed. It returns false if the ACK covers packets
// that were never sent. A peer that acknowledges a withheld packet is lying: its endpoint is ended.
func (m *Module) afterAck(ep *Endpoint, h *frag.Header, done []reliability.Token,
	verdict reliability.AckVerdict,
) bool {
	m.done = done[:0] // it may have grown
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
		ep.snd.BoundBytes(h.Ack, h.Credit, grantedBytes(h.CreditBytes), ep.pack.open())
	}
	oldest, _ := ep.snd.Window()
	ep.life.OldestIs(m.nowUnpaused, oldest)
	if len(done) > 0 {
		if f := ep.byeAhead; f != nil && ep.snd.InFlight() == 0 {
			ep.byeAhead = nil
			m.segEnded(f)
		}
		ep.life.Acked(m.nowUnpaused)
		ep.checkFlushed()
	}
	m.sched.rearm(ep)
	return true
}

// grantedBytes converts the byte credit in an ACK to bytes.
func grantedBytes(units uint16) int {
	if units == frag.CreditBytesAll {
		return reliability.NoBytesBound
	}
	return int(units) * frag.CreditBytesUnit
}

// unitsOf converts bytes to the units of the byte credit in an ACK.
func unitsOf(bytes int) uint16 {
	if bytes >= frag.CreditBytesUnit*frag.CreditBytesAll {
		return frag.CreditBytesAll
	}
	return uint16(max(bytes/frag.CreditBytesUnit, 1))
}

// ackedAll processes the segments that an ACK has freed. Most belong to one large fragment, whose
// count is updated once for all of them.
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

// acked processes a segment that is no longer in flight.
func (m *Module) acked(t reliability.Token) {
	s := &m.segs[t]
	f, begins, pack := s.frag, s.begins, s.pack
	if !m.port.Busy(segBuf(t)) { // as it mostly is
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
		f.ep.byeAhead = f // a goodbye ends the connection after everything before it
	default:
		m.segEnded(f)
	}
}

// segEnded ends a fragment with its last segment.
func (m *Module) segEnded(f *Fragment) {
	if f != nil {
		m.chunksEnded(f, 1)
	}
}

// chunksEnded is segEnded for a number of chunks.
func (m *Module) chunksEnded(f *Fragment, chunks uint32) {
	if chunks == 0 {
		return
	}
	if f.out -= chunks; f.out == 0 && f.state == fragSent {
		m.complete(f, f.err)
	}
}

// complete ends an accepted send. Its OnDone is called after the book-keeping of the pass.
func (m *Module) complete(f *Fragment, err error) {
	f.state, f.err = fragEnded, err
	if f.op != nil && !f.answer {
		m.endOp(f)
	}
	m.dropOwn(f)
	if f.answer {
		m.giveAnswer(f)
		return
	} else if f.isBye() {
		// No caller waits for this fragment.
	} else if err == nil {
		m.stats.counters[CntDone]++
	} else {
		m.stats.counters[CntFailed]++
	}
	m.outbox.push(f)
}

// onNack fails the fragment that the refused packet belongs to. The packet's number must still
// reach the peer, so an empty packet replaces it; the fragment's other packets in flight are
// replaced likewise when they are refused in turn.
func (m *Module) onNack(in *arrival) bool {
	ep, h := in.ep, &in.Header
	t, ok := ep.snd.Token(h.Seq)
	if !ok || ep.snd.Withheld(h.Seq) {
		return false
	}
	if h.Tag == frag.NackMemory { // it comes again by a timer
		m.answeredBy(ep, t)
		ep.snd.NoMemory(m.now, t, int(m.segs[t].bytes), m.cfg.PeerTimeout/4)
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
	if s.pack { // not what a peer should say of a pack, but it will not take any of it
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
	if f.state == fragQueued { // its other packets are not sent at all
		m.unqueue(ep, f)
		m.sched.rearm(ep)
	}
	return true
}
