package peer

import (
	"gobtl/btl/internal/owed"
	"gobtl/btl/internal/port"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Acks sends the outstanding ACKs. The Ledger of Acks lists the endpoints with outstanding ACKs.
type Acks struct {
	*Services
	owed.Ledger[*Endpoint]
}

// ackDebt is an endpoint's receive window (Receiver) and its entry in a list of endpoints with
// outstanding ACKs.
type ackDebt = owed.Debt[*Endpoint]

// ackRides reports whether a data packet can carry the endpoint's outstanding ACK. A selective ACK
// that reports a gap cannot be carried by a data packet, and neither can an ACK that requests an
// ACK in return.
func (ep *Endpoint) ackRides() bool {
	return ep.Rcv.Owed && !ep.asking && (!ep.ID.Selective || ep.Rcv.Held() == 0)
}

// Acknowledge sends each due ACK that no data packet has carried, as a separate Ack packet.
func (ak *Acks) Acknowledge() {
	ak.acknowledgeUntil(ak.Soon.First, ak.Clock.Now)
	ak.acknowledgeUntil(ak.Later.First, ak.Clock.Now)
}

// acknowledgeUntil sends those ACKs of a list that are due at the time "until" or earlier. The
// argument "first" of acknowledgeUntil is the first entry of the list of outstanding ACKs.
func (ak *Acks) acknowledgeUntil(first *ackDebt, until mono.Time) {
	var next *ackDebt
	for d := first; d != nil && d.AckDue() <= until; d = next {
		next = d.Behind
		ep := d.Of
		if ak.tellRefusals(ep) && ak.Writer.sendAck(ep) {
			continue
		}
		if c, _ := ep.AckPath(); c.Room() <= 0 || len(ak.Port.FreeCtl) == 0 {
			return
		}
	}
}

// AcknowledgeAll sends the outstanding ACKs early, except those that the peer permits to be
// delayed. Without outstanding ACKs, the goroutine that calls Progress can sleep longer.
func (ak *Acks) AcknowledgeAll() {
	if ak.Soon.First != nil {
		ak.acknowledgeUntil(ak.Soon.First, mono.Never)
		ak.Port.Post(ak.Clock.Now)
	}
}

// AckDeadline returns the earliest time at which an outstanding ACK is due, not counting those ACKs
// for which the channel has no room.
func (ak *Acks) AckDeadline() mono.Time {
	return acksDue(&ak.Port, ak.Soon.First).Min(acksDue(&ak.Port, ak.Later.First))
}

// acksDue returns the time at which the first sendable ACK in a list is due, or Never if the
// channel has room for no ACK in the list. The argument "first" of acksDue is the first entry of
// the list of outstanding ACKs.
func acksDue(p *port.Port, first *ackDebt) mono.Time {
	for d := first; d != nil && len(p.FreeCtl) > 0; d = d.Behind {
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

// askAck asks the peer to acknowledge all packets up to packet n, for a pending Flush. Over a
// reliable fabric, askAck does nothing.
func (ak *Acks) askAck(ep *Endpoint, n seq.Num) {
	oldest, _ := ep.Snd.Window()
	if !ep.ID.MayAskAck || ep.ID.State != StateConnected || n.Before(oldest) {
		return
	}
	ep.asking, ep.asksFor = true, n
	ep.Rcv.AskAck(ak.Clock.Now, 0)
	ak.Owe(&ep.Rcv, ak.Clock.Now)
}

// askFlush asks the peer for the ACK for which a Flush waits. Over a reliable fabric, askFlush
// sends no separate packet if a data packet that is about to be sent can request the ACK.
func (ak *Acks) askFlush(ep *Endpoint) {
	if ep.Flushes.Len() > 0 && !ep.ID.Counted {
		if until, ok := ep.Flushes.Last(); ok {
			ak.askAck(ep, until-1)
		}
		return
	}
	ak.Timers.Watches.Urge(ep)
}
