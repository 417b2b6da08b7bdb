package btl

import (
	"gobtl/frag"
	"gobtl/reliability"
)

// Atomic operations, and their answers, that wait in an endpoint's queue one behind the other share
// a packet. One that comes alone leaves at once, by itself; those that follow it in the same pass,
// or while it is under way, wait for the next pass, as small messages do (pack.go). The receiver
// looks at all of them before it does any. If one is to be refused it refuses the packet for that
// one's sake: the sender takes it out and sends the rest under the same number. So nothing is ever
// done twice, whoever says what of a refusal: of one number only one packet is taken.

// joinable says whether a fragment on its way may share a packet with others of its kind.
func (ep *Endpoint) joinable(f *Fragment) bool {
	return ep.joins && f.op != nil && (f.op.code == frag.OpAtomic || f.op.code == frag.OpResult)
}

// joinedBytes is what a fragment takes in such a packet.
func joinedBytes(f *Fragment) int {
	return frag.RecordHeaderBytes + frag.OpRecordExtraBytes + int(f.size)
}

// frontJoined says how many fragments at the front of an endpoint's queue fit one packet, and how
// long that is.
func (ep *Endpoint) frontJoined() (count, sizeBytes int) {
	sizeBytes = frag.FragHeaderBytes
	limitBytes := ep.packBytesMax()
	for f := ep.small.queue.first; f != nil && ep.joinable(f) && !ep.behindFence(f); f = f.next {
		if sizeBytes+joinedBytes(f) > limitBytes || count == frag.JoinedMax {
			break
		}
		sizeBytes += joinedBytes(f)
		count++
	}
	return count, sizeBytes
}

// sendJoined sends as many operations of the queue's front as fit in one packet. It returns the
// packet's length, 0 if there is no room for it now.
func (m *Module) sendJoined(ep *Endpoint, count, sizeBytes int) int {
	c, to := ep.way(sizeBytes)
	var t reliability.Token
	first := ep.small.queue.first
	if ep.roomOn(c) <= 0 || !m.takeSeg(ep, &t) && !m.borrowSeg(first, &t) {
		return 0
	}
	b := m.arena.Bytes(segBuf(t))
	at, f := frag.FragHeaderBytes, first
	for place := range count {
		record := frag.OpRecord{
			Number: f.op.number, Code: f.op.code, Place: uint8(place), Payload: f.mem,
		}
		at += record.Marshal(b[at:])
		f = f.next
	}
	p := packet{ep: ep, frag: first, seg: t}
	p.Kind, p.PayloadLen = frag.KindPack, uint16(sizeBytes-frag.FragHeaderBytes)
	m.segs[t].pack = true
	n := m.seal(&p)
	c.putSegment(t, to)
	var last *Fragment
	for range count { // not before: what waits for them to leave looks at the latest number
		f := ep.small.queue.first
		if f.hasSeg {
			m.unfill(f)
		}
		m.unqueue(ep, f)
		f.out, f.cursor, f.next = 1, f.size, nil
		if last != nil {
			last.next = f
		}
		last = f
		m.asked(f)
	}
	ep.bursts = true
	m.stats.counters[CntPacked] += uint64(count)
	return n
}

// acceptJoined takes a pack of operations over: all of them, or none.
func (m *Module) acceptJoined(in *arrival) {
	ep := in.ep
	if !ep.joins {
		m.drop(CntDropMalformed)
		return
	}
	answers := 0
	for rest := in.payload; len(rest) > 0; {
		var data []byte
		_, data, rest = nextRecord(rest)
		o := frag.DecodeOpRecord(data)
		if o.Code != frag.OpAtomic {
			continue
		}
		var a frag.Atomic
		if _, reason := m.reachAtomic(ep, o.Payload, &a, answers); reason != 0 {
			m.drop(CntDropAccess)
			m.sendNack(ep, in.Seq, frag.NackOperation, uint16(o.Place)|uint16(reason)<<8)
			return
		}
		if a.Fetch {
			answers++
		}
	}
	m.accepted(ep, &in.Header)
	for rest := in.payload; len(rest) > 0; {
		var data []byte
		_, data, rest = nextRecord(rest)
		switch o := frag.DecodeOpRecord(data); o.Code {
		case frag.OpAtomic:
			var a frag.Atomic
			on, _ := m.reachAtomic(ep, o.Payload, &a, 0)
			m.doAtomic(ep, o.Number, on, &a)
		default:
			m.takeAnswer(ep, o.Number, o.Code, o.Payload)
		}
	}
	m.checkBye(ep)
}

// onNackOperation fails the operation in a pack that the peer refuses, and has the pack sent again
// without it. False: there is none, or it was refused before.
func (m *Module) onNackOperation(ep *Endpoint, t reliability.Token, place, reason uint8) bool {
	s := &m.segs[t]
	if !s.pack || s.void || s.strip || !m.hasOperation(t, place) {
		return false
	}
	f := s.frag
	for range place {
		f = f.next
	}
	if reason != frag.NackBounds && reason != frag.NackRight {
		reason = frag.NackAccess
	}
	s.strip, s.stripTag = true, place
	m.answeredBy(ep, t)
	err := f.accessError(reason)
	ep.noteRefused(m.seqOf(t), 0, err)
	ep.snd.Refuse(t)
	m.sched.rearm(ep)
	if f.err == nil {
		f.err = err
		m.unanswered(f)
	}
	return true
}

// hasOperation says whether a sealed pack holds the operation of a place.
func (m *Module) hasOperation(t reliability.Token, place uint8) bool {
	for rest := m.recordsOf(t); len(rest) > 0 && frag.IsOperation(rest); {
		var data []byte
		if _, data, rest = nextRecord(rest); frag.DecodeOpRecord(data).Place == place {
			return true
		}
	}
	return false
}
