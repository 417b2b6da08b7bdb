package pml

// A call of Progress handles about sweepMost unexpected messages whose sender's connection has
// ended, or whose group of tags was refused. The next calls of Progress handle the rest. A call
// handles more of them only while they exceed Config.TotalBytes. Without sweepMost, a call of
// Progress would take seconds when many peers end at the same time, for example all peers of a
// host.
const sweepMost = 4096

// earlyPerMessage is the number of entries of Peer.early that count as one message for sweepMost,
// because an entry without a message takes little time.
const earlyPerMessage = 16

// The type "sweeper" contains the peers whose connections have ended, and whose unexpected messages
// were not handled yet.
type sweeper struct {
	l     *Layer
	peers list[Peer]
	bytes int64 // at least the memory of the unexpected messages of these peers
	left  int   // number of messages that the present call of Progress may still handle
}

func newSweeper(l *Layer) sweeper {
	return sweeper{
		l: l, left: sweepMost,
		peers: list[Peer]{at: func(p *Peer) *links[Peer] { return &p.sweeps }},
	}
}

// The method "add" adds a peer whose connection has ended, and whose unexpected messages have the
// given number of bytes.
func (s *sweeper) add(p *Peer, bytes int64) {
	p.sweepBytes = bytes
	s.bytes += bytes
	s.peers.add(p)
}

// The method "due" reports whether a call of Progress is due, because the method "sweep" has not
// handled all messages yet.
func (s *sweeper) due() bool { return s.peers.first != nil || s.l.unexpected.due() != nil }

// The method "sweep" handles the unexpected messages of ended peers, one peer after the other, and
// then those of refused groups, until sweepMost messages were handled since the beginning of the
// latest call of Progress. While the waiting messages of ended peers have more than TotalBytes, the
// method "sweep" handles further messages. Until its turn, a message of an ended peer stays in the
// lists, and a receive that matches a message whose data has not arrived ends with the error of the
// peer.
func (s *sweeper) sweep() {
	for p := s.peers.first; p != nil && (s.left > 0 || s.bytes > s.l.cfg.TotalBytes); {
		s.peers.remove(p)
		s.bytes -= p.sweepBytes
		s.left -= 1 + s.end(p)
		p = s.peers.first
	}
	s.dropRefused()
}

// The method "end" handles the unexpected messages of an ended peer. Messages that have arrived
// completely can still be received. The result is the number of messages that the method "end" has
// handled.
func (s *sweeper) end(p *Peer) (count int) {
	l := s.l
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
	count += len(p.early) / earlyPerMessage
	p.early = nil
	return count
}

// dropRefused drops the messages of refused groups among the unexpected messages, in their order,
// until sweepMost messages were looked at.
func (s *sweeper) dropRefused() {
	l := s.l
	for m := l.unexpected.due(); m != nil && s.left > 0; m = l.unexpected.due() {
		s.left--
		l.unexpected.next = m.order.next
		if l.refused.has(m.tag) {
			l.unexpected.take(m)
			l.drop(m.peer.ep.Now(), m)
			l.memory.release(m)
		}
	}
}
