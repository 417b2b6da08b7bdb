package pml

// sweepMost is the number of unreceived messages of ended peers and of refused groups after which a
// call of Progress leaves the other such messages to the next call. Without sweepMost, a call of
// Progress would take seconds when many peers end at the same time, for example all peers of a
// host.
const sweepMost = 4096

// The type "sweeper" contains the peers whose connections have ended, and whose unreceived messages
// were not handled yet.
type sweeper struct {
	peers list[Peer]
	left  int // number of messages that the present call of Progress may still handle
}

func newSweeper() sweeper {
	return sweeper{
		peers: list[Peer]{at: func(p *Peer) *links[Peer] { return &p.sweeps }}, left: sweepMost,
	}
}

// The method "sweep" handles the unreceived messages of ended peers, one peer after the other, and
// then those of refused groups, until sweepMost messages were handled since the beginning of the
// latest call of Progress. Until its turn, a message of an ended peer stays in the lists, and a
// receive that matches a message whose data has not arrived ends with the error of the peer.
func (l *Layer) sweep() {
	for p := l.swept.peers.first; p != nil && l.swept.left > 0; p = l.swept.peers.first {
		l.swept.peers.remove(p)
		l.swept.left -= 1 + l.sweepPeer(p)
	}
	l.dropRefused()
}

// The method "sweeps" reports whether a call of Progress is due, because the method "sweep" has not
// handled all messages yet.
func (l *Layer) sweeps() bool { return l.swept.peers.first != nil || l.unexpected.due() != nil }

// sweepPeer handles the unreceived messages of an ended peer. Messages that have arrived completely
// can still be received. sweepPeer returns the number of messages that it has handled.
func (l *Layer) sweepPeer(p *Peer) (count int) {
	count = l.unexpected.leave(p, &l.memory)
	for m := p.probed.first; m != nil; m = p.probed.first {
		l.probed.remove(m) // RecvMessage returns the reason
		count++
	}
	for _, m := range p.early {
		if m != nil {
			l.memory.release(m)
			count++
		}
	}
	p.early = nil
	return count
}
