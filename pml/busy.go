package pml

import "gobtl/btl"

// busyVisits is the maximum number of peers with unsent messages for which one call of Progress
// tries to send, so that the time of a call does not depend on the number of such peers.
const busyVisits = 32

// The type "busy" is a round-robin queue of the peers with unsent messages or data.
type busy struct {
	peers list[Peer]
	count int      // number of peers
	due   int      // number of peers at the front that are still to be visited in this round
	now   btl.Time // time of the latest call of the method "visit"
}

func newBusy() busy {
	return busy{peers: list[Peer]{at: func(p *Peer) *links[Peer] { return &p.busy }}}
}

// The method "add" appends a peer to the round-robin queue. If the queue already contains the peer,
// or if the connection to the peer has ended, the method "add" does nothing.
func (b *busy) add(p *Peer) {
	if p.err == nil && !p.busy.in {
		b.peers.add(p)
		b.count++
	}
}

// The method "remove" removes a peer from the round-robin queue, if the queue contains the peer.
func (b *busy) remove(p *Peer) {
	if p.busy.in {
		b.peers.remove(p)
		b.count--
	}
}

// The method "again" begins a new round of visits.
func (b *busy) again() { b.due = b.count }

// The method "deadline" returns the time of the latest call of the method "visit", and whether the
// present round of visits still has peers to visit.
func (b *busy) deadline() (at btl.Time, due bool) { return b.now, b.due > 0 }

// The method "visit" calls the function "advance" for the next busyVisits peers at most. A round of
// visits calls "advance" once for each peer in the queue, and can take several calls of the method
// "visit". A round begins when the previous round has ended, or when the argument "event" is true.
// The argument "event" says that the module has received packets, after which a peer that was
// already visited in this round might be able to send.
func (b *busy) visit(now btl.Time, event bool, advance func(btl.Time, *Peer)) {
	b.now = now
	if event || b.due == 0 {
		b.again()
	}
	for range min(b.due, busyVisits) {
		p := b.peers.first
		if p == nil {
			break
		}
		b.remove(p)
		b.add(p)
		b.due--
		advance(now, p)
	}
	b.due = min(b.due, b.count)
}
