package btl

import (
	"errors"
	"fmt"

	"gobtl/internal/seq"
	"gobtl/reliability"
)

// acknowledgements holds the endpoints that owe an ACK, ordered by due time. ACKs of lone answers,
// which wait much longer, have their own list.
type acknowledgements struct {
	list, later endpointList
	lulls       uint32 // how often a pass has received nothing after one that had
	lull        bool   // the latest one has received nothing
}

// noteLull counts lulls: empty passes after one that received (reliability.Receiver.Pace).
func (a *acknowledgements) noteLull(nothing bool) {
	if nothing && !a.lull {
		a.lulls++
	}
	a.lull = nothing
}

// ackDebt is an endpoint's place on the lists of owed ACKs.
type ackDebt struct {
	ackOwed bool
	ackHeld bool         // back: it stands in acknowledgements.later, else in list
	ackLink endpointLink // there
}

// owe puts an endpoint on a list of owed ACKs: at the end, as all delays on a list are equal, or at
// the front if the ACK is due at once.
func (a *acknowledgements) owe(ep *Endpoint, now Time) {
	if ep.ackHeld && !ep.rcv.AckLater() {
		a.settle(ep)
	}
	switch {
	case ep.ackHeld:
	case ep.rcv.AckDue() <= now:
		a.settle(ep)
		a.list.pushFront(ep)
	case ep.ackOwed:
	case ep.rcv.AckLater():
		ep.ackHeld = true
		a.later.pushBack(ep)
	default:
		a.list.pushBack(ep)
	}
	ep.ackOwed = true
}

// settle takes an endpoint off its list of owed ACKs, because the ACK was sent or was dropped.
func (a *acknowledgements) settle(ep *Endpoint) {
	switch {
	case ep.ackHeld:
		a.later.remove(ep)
	case ep.ackOwed:
		a.list.remove(ep)
	}
	ep.ackOwed, ep.ackHeld = false, false
}

// ripeLooks bounds the endpoints that ripen examines: if more owe an ACK, there is enough to do.
const ripeLooks = 8

// ripen sends owed ACKs early, in an idle pass, if they cover at least a batch: the sender may have
// only that in flight, and wait. A smaller ACK that is delayed blocks no sender.
func (a *acknowledgements) ripen(now Time, rules *reliability.Rules) {
	ep := a.list.first
	for n := 0; ep != nil && n < ripeLooks; n++ {
		next := ep.ackLink.next
		if ep.rcv.AckDue() > now && ep.rcv.Ripe(rules) {
			ep.rcv.AskAck(now, 0)
			a.owe(ep, now)
		}
		ep = next
	}
}

// askAck requests an ACK of everything up to packet n from the peer, for a waiting flush. Unasked,
// the peer delays that ACK in the hope of a packet to piggyback it on.
func (m *Module) askAck(ep *Endpoint, n seq.Num) {
	oldest, _ := ep.snd.Window()
	if !ep.mayAskAck || ep.state != stateConnected || n.Before(oldest) {
		return
	}
	ep.asking, ep.asksFor = true, n
	ep.rcv.AskAck(m.now, 0)
	m.acks.owe(ep, m.now)
}

// askedForAck handles an Ack packet that requests an ACK in return.
func (m *Module) askedForAck(in *arrival) {
	ep := in.ep
	ep.rcv.AskAckOf(m.now, in.Seq)
	if ep.ackOwed {
		m.acks.owe(ep, m.now)
	}
}

// check proves that the lists hold exactly the living endpoints that owe an ACK, in the order in
// which they are due.
func (a *acknowledgements) check(p *peerTable, now Time) error {
	owing, held := 0, 0
	for _, ep := range p.All() {
		switch {
		case ep == nil:
		case ep.ackHeld != ep.rcv.AckLater() || ep.ackHeld && !ep.ackOwed:
			return fmt.Errorf("list of ACKs: endpoint %d owes one: %v, on the list of those held "+
				"back: %v, is to be: %v", ep.id.Slot, ep.ackOwed, ep.ackHeld, ep.rcv.AckLater())
		case ep.ackHeld:
			held++
		case ep.ackOwed:
			owing++
		}
	}
	if err := a.list.check(p, owing, now); err != nil {
		return fmt.Errorf("list of ACKs: %w", err)
	}
	if err := a.later.check(p, held, now); err != nil {
		return fmt.Errorf("list of ACKs held back: %w", err)
	}
	return nil
}

// endpointLink chains an endpoint into a list.
type endpointLink struct{ prev, next *Endpoint }

// endpointList is a list of endpoints that owe ACKs, linked through Endpoint.ackLink.
type endpointList struct {
	first, last *Endpoint
	count       int
}

func (l *endpointList) pushBack(ep *Endpoint) {
	ep.ackLink = endpointLink{prev: l.last}
	if l.last == nil {
		l.first = ep
	} else {
		l.last.ackLink.next = ep
	}
	l.last = ep
	l.count++
}

func (l *endpointList) pushFront(ep *Endpoint) {
	ep.ackLink = endpointLink{next: l.first}
	if l.first == nil {
		l.last = ep
	} else {
		l.first.ackLink.prev = ep
	}
	l.first = ep
	l.count++
}

func (l *endpointList) remove(ep *Endpoint) {
	k := &ep.ackLink
	if k.prev == nil {
		l.first = k.next
	} else {
		k.prev.ackLink.next = k.next
	}
	if k.next == nil {
		l.last = k.prev
	} else {
		k.next.ackLink.prev = k.prev
	}
	*k = endpointLink{}
	l.count--
}

func (l *endpointList) check(p *peerTable, members int, now Time) error {
	due := now
	n := 0
	var last *Endpoint
	for ep := l.first; ep != nil && n <= l.count; ep = ep.ackLink.next {
		n++
		if !p.Holds(ep) || !ep.ackOwed {
			return errors.New("an endpoint that does not belong there")
		}
		if ep.ackLink.prev != last {
			return errors.New("its links do not match")
		}
		at := max(ep.rcv.AckDue(), now)
		if at < due {
			return fmt.Errorf("one due %d stands behind one due %d", at, due)
		}
		last, due = ep, at
	}
	if n != l.count || n != members || l.last != last {
		return fmt.Errorf("%d members, %d counted, %d endpoints say so", n, l.count, members)
	}
	return nil
}
