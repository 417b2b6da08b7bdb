package btl

// ackRides says whether the ACK that is owed may go with another packet. A selective one that has a
// gap to report goes alone, and so does one that asks.
func (ep *Endpoint) ackRides() bool {
	return ep.ackOwed && !ep.asking && (!ep.selective || ep.rcv.Held() == 0)
}

// acknowledge sends the ACKs that are due and found nothing to ride on.
func (m *Module) acknowledge() {
	m.acknowledgeUntil(&m.acks.list, m.now)
	m.acknowledgeUntil(&m.acks.later, m.now)
}

// acknowledgeUntil sends the ACKs of a list that are due by then. An endpoint that has too many
// control packets on their way is passed over.
func (m *Module) acknowledgeUntil(l *endpointList, until Time) {
	var next *Endpoint
	for ep := l.first; ep != nil && ep.rcv.AckDue() <= until; ep = next {
		next = ep.ackLink.next
		if m.tellRefusals(ep) && m.sendAck(ep) {
			continue
		}
		if c, _ := ep.ackPath(); c.Room() <= 0 || m.port.FreeControl() == 0 {
			return
		}
	}
}

// acknowledgeAll sends every ACK that is owed, for an owner who would be woken for them soon; not
// those of lone answers.
func (m *Module) acknowledgeAll() {
	if m.acks.list.first != nil && !m.inProgress && !m.closed {
		m.acknowledgeUntil(&m.acks.list, Never)
		m.port.Post()
	}
}

// ackDeadline is when the next ACK is due for which there is room.
func (m *Module) ackDeadline() Time {
	return m.acksDue(&m.acks.list).Min(m.acksDue(&m.acks.later))
}

// acksDue is ackDeadline of one of the lists.
func (m *Module) acksDue(l *endpointList) Time {
	for ep := l.first; ep != nil && m.port.FreeControl() > 0; ep = ep.ackLink.next {
		c, to := ep.ackPath()
		if c.Room() <= 0 {
			return Never
		}
		if m.port.MayTakeControl(to) {
			return ep.rcv.AckDue()
		}
	}
	return Never
}
