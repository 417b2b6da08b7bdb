package btl

import (
	"fmt"

	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/hotel"
	"gobtl/internal/slots"
)

// peers is the table of connections: each endpoint has a place, which its connection tag names, and
// one timer; and it is found by who the peer is, and by where.
//
//	packet:      tag ---------------------> slots
//	first Hello: incarnation and tag -----> byTag
//	Connect:     address of the peer -----> byAddr --displaced--> those known there before
type peers struct {
	slots  slots.Table[*Endpoint]
	timers *hotel.Hotel[uint32] // by place
	// pathTimers are those of the searches for the size of datagrams.
	pathTimers *hotel.Hotel[uint32]
	byTag      map[peerKey]*Endpoint
	byAddr     map[string]*Endpoint
	census     meet.Census
	parts      partial // of all peers
	births     uint64  // endpoints ever made
	// shedAt is when peers that hold memory may be looked at again.
	shedAt    Time
	lifeRules liveness.Rules
	// askSilentAt is when silent peers may be asked again for what others want.
	askSilentAt Time
}

// partial is what a module has of packets that arrive in Parts.
type partial struct {
	pool  *frag.PartPool
	whole []byte // scratch of onPart
}

// peerTag identifies one connection of one life of a peer.
type peerTag struct{ incarnation, tag uint64 }

// peerKey is one, at the address of its command channel: nobody who only knows of it takes its
// place.
type peerKey struct {
	peerTag
	addr string
}

// key is what an endpoint is found by in peers.byTag.
func (ep *Endpoint) key() peerKey { return peerKey{ep.peer, ep.addrKey} }

// isLife says whether the endpoint's peer may be of that incarnation: one that was called by its
// address alone is of any until it has answered.
func (ep *Endpoint) isLife(incarnation uint64) bool {
	return ep.peer.incarnation == incarnation || ep.peer.incarnation == 0
}

// identity is which connection an endpoint is, on either side.
type identity struct {
	tag     uint64 // what the peer puts in its packets: random, the low bits are the slot
	slot    uint32
	born    uint64  // its number among all endpoints ever made, from 1 on
	peer    peerTag // the peer's life, and its tag: what this side puts in its packets
	addrKey string  // name of the peer's command endpoint
	// displaced is the endpoint of the same address that peers.byAddr held before Connect made this
	// one for another incarnation: ended when this one connects, back in its place when it does not.
	displaced *Endpoint
	label     string // what its owner calls it
}

// slotBits is the part of a connection tag that is an index; the rest is random.
const slotBits = 20

func (p *peers) init(dom fabric.Domain, peersMax int, limits meet.Limits) (err error) {
	hosts, _ := dom.(fabric.Addresser)
	p.census.Init(hosts, limits)
	p.slots.Init(slotBits, peersMax)
	p.byTag, p.byAddr = make(map[peerKey]*Endpoint), make(map[string]*Endpoint)
	if p.timers, err = hotel.New[uint32](hotel.Config{Rooms: peersMax}); err == nil {
		p.pathTimers, err = hotel.New[uint32](hotel.Config{Rooms: peersMax})
	}
	return err
}

// lookup finds the endpoint of a connection tag, which may be any number: an index and a compare.
func (p *peers) lookup(tag uint64) *Endpoint {
	ep, _ := p.slots.Get(tag)
	return ep
}

// add gives an endpoint a place, and a tag that nobody can guess. There must be room.
func (p *peers) add(ep *Endpoint, random uint64) {
	p.births++
	ep.born = p.births
	ep.tag, _ = p.slots.Add(random, ep)
	ep.slot = p.slots.Slot(ep.tag)
}

// vacate makes the place of an endpoint free.
func (p *peers) vacate(ep *Endpoint) {
	p.slots.Remove(ep.tag)
	p.census.Remove(ep.addrKey)
}

// holds says whether an endpoint is in the table still.
func (p *peers) holds(ep *Endpoint) bool {
	return int(ep.slot) < len(p.slots.Values()) && p.slots.At(ep.slot) == ep
}

// setPeer notes who an endpoint's peer is, and has it found by that.
func (p *peers) setPeer(ep *Endpoint, peer peerTag) {
	p.forgetPeer(ep)
	ep.peer = peer
	p.byTag[ep.key()] = ep
}

// forgetPeer has an endpoint found no more by who its peer is.
func (p *peers) forgetPeer(ep *Endpoint) {
	if key := ep.key(); p.byTag[key] == ep {
		delete(p.byTag, key)
	}
}

// replacePeer has an endpoint found in the place of half by who its peer is, if half was.
func (p *peers) replacePeer(half, ep *Endpoint) {
	if key := half.key(); p.byTag[key] == half {
		p.byTag[key] = ep
	}
}

// known says whether an endpoint is the one that its peer's address leads to.
func (p *peers) known(ep *Endpoint) bool { return p.byAddr[ep.addrKey] == ep }

// leadTo has the address of an endpoint's peer lead to it.
func (p *peers) leadTo(ep *Endpoint) { p.byAddr[ep.addrKey] = ep }

// leadToIfFree does so if the address leads to nobody.
func (p *peers) leadToIfFree(ep *Endpoint) {
	if p.byAddr[ep.addrKey] == nil {
		p.leadTo(ep)
	}
}

// forgetAddr has an endpoint found no more by the address of its peer.
func (p *peers) forgetAddr(ep *Endpoint) {
	if p.known(ep) {
		delete(p.byAddr, ep.addrKey)
	}
}

// leaveAddrTo has the address of an endpoint that ends lead to the latest one that it has displaced
// and that still lives: the name that led here was not better.
func (p *peers) leaveAddrTo(ep *Endpoint) {
	if !p.known(ep) {
		return
	}
	p.forgetAddr(ep)
	for d := ep.displaced; d != nil; d = d.displaced {
		if d.state != stateEnded && d.err == nil {
			p.leadTo(d)
			return
		}
	}
}

// displace puts an endpoint that Connect made, or found half open, in the place of the one that was
// known by its address before. That one may have displaced it in turn.
func (p *peers) displace(ep, old *Endpoint) {
	if old == ep {
		return
	}
	for d := old; d != nil; d = d.displaced {
		if d.displaced == ep {
			d.displaced, ep.displaced = ep.displaced, nil
		}
	}
	ep.displaced = old
	p.leadTo(ep)
}

// ofOtherLives counts the endpoints at an address that were connected with another life of a peer.
func (p *peers) ofOtherLives(addr string, life uint64) (n int) {
	for _, ep := range p.slots.Values() {
		if ep != nil && ep.addrKey == addr && !ep.isLife(life) &&
			(ep.state == stateConnected || ep.state == stateLingering) {
			n++
		}
	}
	return n
}

// oldestLingering is the oldest endpoint at an address that only repeats its last ACK to a life of
// a peer, nil if there is none.
func (p *peers) oldestLingering(addr string, life uint64) (oldest *Endpoint) {
	for _, ep := range p.slots.Values() {
		if ep != nil && ep.state == stateLingering && ep.addrKey == addr && ep.isLife(life) &&
			(oldest == nil || ep.born < oldest.born) {
			oldest = ep
		}
	}
	return oldest
}

// halfOpenTo finds the latest half-open endpoint of a module that is known by its address, and by
// its incarnation unless that is 0. It need not be the one in byAddr, where an earlier connection
// may be on its way out.
func (p *peers) halfOpenTo(incarnation uint64, addr string) *Endpoint {
	if p.census.HalfOpen() == 0 {
		return nil
	}
	var found *Endpoint
	for _, ep := range p.slots.Values() {
		if ep != nil && ep.state == stateAccepting && ep.addrKey == addr &&
			(incarnation == 0 || ep.peer.incarnation == incarnation) &&
			(found == nil || ep.born > found.born) {
			found = ep
		}
	}
	return found
}

// displacesItself says whether the chain of endpoints that were displaced comes back to one of it
// (Floyd's tortoise and hare).
func (ep *Endpoint) displacesItself() bool {
	slow, fast := ep, ep
	for fast != nil && fast.displaced != nil {
		slow, fast = slow.displaced, fast.displaced.displaced
		if slow == fast {
			return true
		}
	}
	return false
}

// check compares the tables with what c has counted of the endpoints in them.
func (p *peers) check(c *checker) error {
	switch {
	case c.timers != p.timers.Len():
		return fmt.Errorf("%d endpoints have a timer, %d run", c.timers, p.timers.Len())
	case c.byTag != len(p.byTag):
		return fmt.Errorf("%d connection tags, %d endpoints", len(p.byTag), c.byTag)
	case c.byAddr != len(p.byAddr):
		return fmt.Errorf("%d addresses, %d endpoints", len(p.byAddr), c.byAddr)
	}
	if err := p.census.Check(p.slots.Len(), c.accept); err != nil {
		return err
	}
	return p.slots.Check()
}
