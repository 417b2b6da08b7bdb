package pml

// The method "leave" handles the unexpected messages of a peer whose connection has ended. Messages
// that had arrived completely before the end of the connection can still be received. The method
// "leave" drops the messages that the peer has only announced. If the messages of gone peers exceed
// Config.GoneBytes, the method "leave" returns messages of gone peers to the memory y. The result
// of the method "leave" is the number of messages that it has handled.
func (q *unexpected) leave(p *Peer, y *memory) (count int) {
	held := int64(0)
	for m := p.unexpected.first; m != nil; {
		next := m.own.next
		if m.eager {
			held += m.held()
		} else {
			q.remove(m)
			m.gone = true
		}
		m = next
		count++
	}
	if held == 0 {
		return count
	}
	for _, d := range q.gone.Add(p.ep.PeerHost(), p, goneBytes+held) {
		for m := d.unexpected.first; m != nil; m = d.unexpected.first {
			q.remove(m)
			y.release(m)
			q.forgotten++
			count++
		}
	}
	return count
}

// The method "take" removes a message from the unexpected messages, because the message is
// received, dropped, or returned by MProbe.
func (q *unexpected) take(m *Message) {
	q.remove(m)
	if p := m.peer; p.err != nil {
		q.gone.Shrink(p, m.held())
		if p.unexpected.first == nil {
			q.gone.Remove(p)
		}
	}
}
