package pml

// The method "leave" handles the unexpected messages of a peer whose connection has ended. Messages
// that had arrived completely before the end of the connection can still be received. The method
// "leave" drops the messages of the peer that were announced and whose data has not arrived. If the
// messages of ended connections exceed Config.GoneBytes, the method "leave" drops all messages of
// some ended connections, and returns the memory to the pool y.
func (q *unexpected) leave(p *Peer, y *memory) {
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
	}
	if held == 0 {
		return
	}
	for _, d := range q.gone.Add(p.ep.PeerHost(), p, goneBytes+held) {
		for m := d.unexpected.first; m != nil; m = d.unexpected.first {
			q.remove(m)
			y.release(m)
			q.forgotten++
		}
	}
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
