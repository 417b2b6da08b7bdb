package peer

import (
	"gobtl/btl/internal/owed"
	"gobtl/btl/internal/port"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Acks sends the outstanding ACKs. The Ledger lists the endpoints whose peers wait for an ACK.
type Acks struct {
	*Services
	owed.Ledger[*Endpoint]
}

// ackDebt is an endpoint's Receiver and its entry in a list of endpoints with outstanding ACKs.
type ackDebt = owed.Debt[*Endpoint]

// ackRides reports whether the outstanding ACK may be sent as a part of another packet. A selective
// ACK that reports a gap needs its own packet, and so does an ACK that requests an ACK in return.
func (ep *Endpoint) ackRides() bool {
	return ep.Rcv.Owes() && !ep.asking && (!ep.ID.Selective || ep.Rcv.Held() == 0)
}

// Acknowledge sends each due ACK that no data packet has carried, as a separate Ack packet.
func (ak *Acks) Acknowledge() {
	ak.acknowledgeUntil(ak.First(), ak.Clock.Now)
	ak.acknowledgeUntil(ak.Later(), ak.Clock.Now)
}

// acknowledgeUntil sends the ACKs that are due no later than until, for the endpoints of
// the list that starts with first.
func (ak *Acks) acknowledgeUntil(first *ackDebt, until mono.Time) {
	var next *ackDebt
	for d := first; d != nil && d.AckDue() <= until; d = next {
		next = d.Behind()
		ep := d.Of
		if ak.tellRefusals(ep) && ak.Writer.sendAck(ep) {
			continue
		}
		if c, _ := ep.AckPath(); c.Room() <= 0 || ak.Port.FreeControl() == 0 {
			return
		}
	}
}

// AcknowledgeAll sends the outstanding ACKs of the list First before they are due, so that no
// ACK timer soon wakes the goroutine that owns the module.
func (ak *Acks) AcknowledgeAll() {
	if ak.First() != nil {
		ak.acknowledgeUntil(ak.First(), mono.Never)
		ak.Port.Post()
	}
}

// AckDeadline returns the earliest time at which an outstanding ACK is due. ACKs whose channels
// have no room are not considered.
func (ak *Acks) AckDeadline() mono.Time {
	return acksDue(&ak.Port, ak.First()).Min(acksDue(&ak.Port, ak.Later()))
}

// acksDue returns the time at which the first outstanding ACK of the list that starts with first is
// due, if its channel has room.
func acksDue(p *port.Port, first *ackDebt) mono.Time {
	for d := first; d != nil && p.FreeControl() > 0; d = d.Behind() {
		c, to := d.Of.AckPath()
		if c.Room() <= 0 {
			return mono.Never
		}
		if p.MayTakeControl(to) {
			return d.AckDue()
		}
	}
	return mono.Never
}

// askAck asks the peer to acknowledge all packets up to packet n, for a pending Flush.
func (ak *Acks) askAck(ep *Endpoint, n seq.Num) {
	oldest, _ := ep.Snd.Window()
	if !ep.ID.MayAskAck || ep.ID.State() != StateConnected || n.Before(oldest) {
		return
	}
	ep.asking, ep.asksFor = true, n
	ep.Rcv.AskAck(ak.Clock.Now, 0)
	ak.Owe(&ep.Rcv, ak.Clock.Now)
}

// askFlush asks the peer for the ACK that a Flush waits for. Over a reliable fabric, askFlush sends
// no separate packet if a data packet that is about to be sent will request the ACK.
func (ak *Acks) askFlush(ep *Endpoint) {
	if ep.Flushes.Len() > 0 && !ep.ID.Counted {
		if until, ok := ep.Flushes.Last(); ok {
			ak.askAck(ep, until-1)
		}
		return
	}
	ak.Timers.Watches.Urge(ep)
}
