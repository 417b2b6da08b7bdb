package pml

import "gobtl/btl"

// The list Layer.busy contains the peers that the next pass visits. A visit sends what it can, and
// takes the peer from the list. A peer whose messages still have to wait is then in no list, so the
// time of a pass does not depend on the number of peers that wait. The end of each wait puts the
// peer into the list again:
//
//	the messages wait for                      the wait ends in
//	room in the endpoint (btl.ErrAgain)        onRoom, for a few endpoints in each pass
//	the peer's limits on unreceived messages   onCredit
//	the limit on packets in flight             packetDone
//	an earlier message, which is abandoned     finish
//	a free request id                          the next pass: the peer stays in the list
//
// Package btl calls onRoom once for each endpoint that has returned btl.ErrAgain, as soon as a
// repetition can succeed. The hosts of these endpoints take turns. When a connection has ended,
// the method "end" ends all messages that wait.

// The method "soon" adds a peer to the list of peers that the next pass visits.
func (l *Layer) soon(p *Peer) {
	if !p.busy.in && p.err == nil {
		l.busy.add(p)
	}
}

// The method "visit" visits each peer of the list Layer.busy once. A peer that a visit adds to the
// list again is visited in the next pass.
func (l *Layer) visit(now btl.Time) {
	begin := l.visits
	for p := l.busy.first; p != nil && p.visit <= begin; p = l.busy.first {
		l.visits++
		p.visit = l.visits
		l.busy.remove(p)
		l.advance(now, p)
	}
}

// The method "advance" sends the queued messages and data for a peer, until no buffer is free or
// the peer's limits on unreceived messages are reached.
func (l *Layer) advance(now btl.Time, p *Peer) {
	for p.err == nil && p.control.Len() > 0 && l.sendHead(now, p, p.control.Front()) {
		p.control.Pop()
	}
	p.shrinkControl()
	for p.err == nil && p.puts.first != nil && l.putNext(now, p.puts.first) {
	}
	for p.err == nil && p.sends.first != nil {
		r := p.sends.first
		p.sends.remove(r) // finish may add r to the list of ended requests
		if !l.sendEnvelope(now, r) {
			p.sends.putBack(r)
			break
		}
	}
}

// onRoom is called when an endpoint that has returned btl.ErrAgain has room.
func (l *Layer) onRoom(ep *btl.Endpoint) {
	if p := l.Peer(ep); p.queued() {
		l.soon(p)
	}
}

// The method "queued" reports whether messages or data for a peer wait to be sent.
func (p *Peer) queued() bool {
	return p.control.Len() > 0 || p.puts.first != nil || p.sends.first != nil
}

// The method "queued" reports whether messages or data for any peer wait to be sent.
func (s *hosts) queued() bool {
	for h := s.all.first; h != nil; h = h.all.next {
		for p := h.peers.first; p != nil; p = p.mates.next {
			if p.queued() {
				return true
			}
		}
	}
	return false
}
