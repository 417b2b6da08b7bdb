package pml

// The method "leave" handles the unreceived messages of a peer whose connection has ended. Messages
// that had arrived completely before the end of the connection can still be received. The method
// "leave" drops the messages that the peer has only announced.
func (l *Layer) leave(p *Peer) {
	held := int64(0)
	for m := p.unexpected.first; m != nil; {
		next := m.own.next
		if m.eager {
			held += m.held()
		} else {
			l.unexpected.remove(m)
			m.gone = true
		}
		m = next
	}
	if held == 0 {
		return
	}
	for _, d := range l.gone.Add(p.ep.PeerHost(), p, goneBytes+held) {
		for m := d.unexpected.first; m != nil; m = d.unexpected.first {
			l.unexpected.remove(m)
			l.memory.release(m)
			l.stats.Forgotten++
		}
	}
}

func (l *Layer) takeOut(m *Message) {
	l.unexpected.remove(m)
	if p := m.peer; p.err != nil {
		l.gone.Shrink(p, m.held())
		if p.unexpected.first == nil {
			l.gone.Remove(p)
		}
	}
}
