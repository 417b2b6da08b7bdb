package btl

// ackRides says whether the owed ACK may be piggybacked on another packet. A selective ACK that
// reports a gap needs its own packet, as does an ACK that requests one.
func (ep *Endpoint) ackRides() bool {
	return ep.ackOwed && !ep.asking && (!ep.selective || ep.rcv.Held() == 0)
}

// acknowledge sends, as packets of their own, the ACKs that are due and were not piggybacked.
func (m *Module) acknowledge() {
	m.acknowledgeUntil(&m.acks.list, m.now)
	m.acknowledgeUntil(&m.acks.later, m.now)
}

// acknowledgeUntil sends the ACKs of a list that are due by until. An endpoint with too many
// control packets in flight is skipped.
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

// acknowledgeAll sends every owed ACK but those of lone answers, so that no ACK timer soon wakes
// the owner.
func (m *Module) acknowledgeAll() {
	if m.acks.list.first != nil && !m.inProgress && !m.closed {
		m.acknowledgeUntil(&m.acks.list, Never)
		m.port.Post()
	}
}

// ackDeadline is the time when the next ACK is due that there is room to send.
func (m *Module) ackDeadline() Time {
	return m.acksDue(&m.acks.list).Min(m.acksDue(&m.acks.later))
}

// acksDue is ackDeadline for one of the two lists.
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
