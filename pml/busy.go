package pml

import "gobtl/btl"

// busyVisits is the maximum number of peers that one call of Progress visits, so that the time of a
// call does not depend on the number of peers that wait.
const busyVisits = 32

// The type "busy" contains the peers with unsent messages or data, which take turns.
type busy struct {
	peers list[Peer]
	count int      // number of peers
	due   int      // number of peers at the front that are still to be visited in this round
	now   btl.Time // time of the latest call of the method "visit"
}

func newBusy() busy {
	return busy{peers: list[Peer]{at: func(p *Peer) *links[Peer] { return &p.busy }}}
}

// The method "add" adds a peer, behind all other peers. If the peer is already there, or if its
// connection has ended, the method "add" does nothing.
func (b *busy) add(p *Peer) {
	if p.err == nil && !p.busy.in {
		b.peers.add(p)
		b.count++
	}
}

// The method "remove" removes a peer, if it is there.
func (b *busy) remove(p *Peer) {
	if p.busy.in {
		b.peers.remove(p)
		b.count--
	}
}

// The method "again" begins a new round of visits.
func (b *busy) again() { b.due = b.count }

// The method "deadline" returns the time of the latest call of the method "visit", and whether the
// present round has peers left to visit.
func (b *busy) deadline() (at btl.Time, due bool) { return b.now, b.due > 0 }

// The method "visit" calls the function "advance" for the next busyVisits peers at most. A round of
// visits reaches each peer once, and can take several calls. A round begins when the previous round
// has ended. A round also begins when the argument "event" reports that the module has had an
// event, because the event can end the wait of a peer that was visited before.
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
