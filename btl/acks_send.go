package btl

import (
	"gobtl/btl/internal/owed"
	"gobtl/internal/seq"
)

// ackDebt is an endpoint's Receiver, and its place among those that owe an ACK.
type ackDebt = owed.Debt[*Endpoint]

// ackRides says whether the owed ACK may be piggybacked on another packet. A selective ACK that
// reports a gap needs its own packet, as does an ACK that requests one.
func (ep *Endpoint) ackRides() bool {
	return ep.rcv.Owes() && !ep.asking && (!ep.id.Selective || ep.rcv.Held() == 0)
}

// acknowledge sends, as packets of their own, the ACKs that are due and were not piggybacked.
func (m *Module) acknowledge() {
	m.acknowledgeUntil(m.acks.First(), m.now)
	m.acknowledgeUntil(m.acks.Later(), m.now)
}

// acknowledgeUntil sends the ACKs of a list, from first on, that are due by until. An endpoint with
// too many control packets in flight is skipped.
func (m *Module) acknowledgeUntil(first *ackDebt, until Time) {
	var next *ackDebt
	for d := first; d != nil && d.AckDue() <= until; d = next {
		next = d.Behind()
		ep := d.Of
		if m.tellRefusals(ep) && m.sendAck(ep) {
			continue
		}
		if c, _ := ep.ackPath(); c.Room() <= 0 || m.port.FreeControl() == 0 {
			return
		}
	}
}

// acknowledgeAll sends every owed ACK but those of lone answers, so that no ACK timer soon wakes
// the owner.
func (m *Module) acknowledgeAll() {
	if m.acks.First() != nil && !m.inProgress && !m.closed {
		m.acknowledgeUntil(m.acks.First(), Never)
		m.port.Post()
	}
}

// ackDeadline is the time when the next ACK is due that there is room to send.
func (m *Module) ackDeadline() Time {
	return m.acksDue(m.acks.First()).Min(m.acksDue(m.acks.Later()))
}

// acksDue is ackDeadline for one of the two lists.
func (m *Module) acksDue(first *ackDebt) Time {
	for d := first; d != nil && m.port.FreeControl() > 0; d = d.Behind() {
		c, to := d.Of.ackPath()
		if c.Room() <= 0 {
			return Never
		}
		if m.port.MayTakeControl(to) {
			return d.AckDue()
		}
	}
	return Never
}

// askAck requests an ACK of everything up to packet n from the peer, for a waiting flush. Unasked,
// the peer delays that ACK in the hope of a packet to piggyback it on.
func (m *Module) askAck(ep *Endpoint, n seq.Num) {
	oldest, _ := ep.snd.Window()
	if !ep.id.MayAskAck || ep.id.State() != stateConnected || n.Before(oldest) {
		return
	}
	ep.asking, ep.asksFor = true, n
	ep.rcv.AskAck(m.now, 0)
	m.acks.Owe(&ep.rcv, m.now)
}

// askFlush requests the confirmation (or ACK) that a Flush waits for, unless a packet that is about
// to be sent requests it.
func (m *Module) askFlush(ep *Endpoint) {
	if ep.flushes.Len() > 0 && !ep.id.Counted {
		if until, ok := ep.flushes.Last(); ok {
			m.askAck(ep, until-1)
		}
		return
	}
	m.watches.Urge(ep)
}

// askedForAck handles an Ack packet that requests an ACK in return.
func (m *Module) askedForAck(in *arrival) {
	ep := in.ep
	ep.rcv.AskAckOf(m.now, in.Seq)
	if ep.rcv.Owes() {
		m.acks.Owe(&ep.rcv, m.now)
	}
}
