package btl

import (
	"gobtl/btl/internal/owed"
	"gobtl/btl/internal/port"
	"gobtl/internal/seq"
)

// ackDebt is an endpoint's Receiver and its entry in a list of endpoints with outstanding ACKs.
type ackDebt = owed.Debt[*Endpoint]

// ackRides reports whether the outstanding ACK may be sent as a part of another packet. A selective
// ACK that reports a gap needs its own packet, and so does an ACK that requests an ACK in return.
func (ep *Endpoint) ackRides() bool {
	return ep.rcv.Owes() && !ep.asking && (!ep.id.Selective || ep.rcv.Held() == 0)
}

// acknowledge sends the due ACKs that were not sent as a part of another packet, each as an Ack
// packet.
func (m *Module) acknowledge() {
	m.acknowledgeUntil(m.acks.First(), m.clock.Now)
	m.acknowledgeUntil(m.acks.Later(), m.clock.Now)
}

// acknowledgeUntil sends the ACKs that are due no later than until, for the endpoints of
// the list that starts with first.
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

// acknowledgeAll sends the outstanding ACKs of the list acks.First before they are due, so that no
// ACK timer soon wakes the goroutine that owns the module.
func (m *Module) acknowledgeAll() {
	if m.acks.First() != nil && !m.inProgress && !m.closed {
		m.acknowledgeUntil(m.acks.First(), Never)
		m.port.Post()
	}
}

// Among the outstanding ACKs whose channels have room, ackDeadline finds the one that is
// due first, and returns the time at which it is due.
func (m *Module) ackDeadline() Time {
	return acksDue(&m.port, m.acks.First()).Min(acksDue(&m.port, m.acks.Later()))
}

// acksDue returns the time at which the first outstanding ACK of the list that starts with first is
// due, if its channel has room.
func acksDue(p *port.Port, first *ackDebt) Time {
	for d := first; d != nil && p.FreeControl() > 0; d = d.Behind() {
		c, to := d.Of.ackPath()
		if c.Room() <= 0 {
			return Never
		}
		if p.MayTakeControl(to) {
			return d.AckDue()
		}
	}
	return Never
}

// askAck asks the peer to acknowledge everything up to packet n, for a pending Flush.
func (m *Module) askAck(ep *Endpoint, n seq.Num) {
	oldest, _ := ep.snd.Window()
	if !ep.id.MayAskAck || ep.id.State() != stateConnected || n.Before(oldest) {
		return
	}
	ep.asking, ep.asksFor = true, n
	ep.rcv.AskAck(m.clock.Now, 0)
	m.acks.Owe(&ep.rcv, m.clock.Now)
}

// askFlush asks the peer for the ACK that a Flush waits for. On a counted link askFlush sends no
// request if a packet that is about to be sent will contain one.
func (m *Module) askFlush(ep *Endpoint) {
	if ep.flushes.Len() > 0 && !ep.id.Counted {
		if until, ok := ep.flushes.Last(); ok {
			m.askAck(ep, until-1)
		}
		return
	}
	m.watches.Urge(ep)
}

// askedForAck handles a received Ack packet that requests an ACK in return.
func (m *Module) askedForAck(in *arrival) {
	ep := in.ep
	ep.rcv.AskAckOf(m.clock.Now, in.Seq)
	if ep.rcv.Owes() {
		m.acks.Owe(&ep.rcv, m.clock.Now)
	}
}
