package meet

import (
	"fmt"

	"gobtl/internal/slots"
)

// PeerTag identifies one connection of one life of a peer.
type PeerTag struct{ Incarnation, Tag uint64 }

// peerKey is a PeerTag at the address of the peer's command channel: a stranger that knows of the
// tag alone does not take the place of the peer.
type peerKey struct {
	PeerTag
	addr string
}

// End identifies an endpoint's connection, on both sides. E is the owner's endpoint, which has its
// End by value.
type End[E any] struct {
	Tag   uint64  // what the peer puts in its packets: random, the low bits are the slot
	Slot  uint32  // the place in the Table
	Born  uint64  // the number among all endpoints ever made, from 1 on
	Peer  PeerTag // the peer's life, and its tag: what this side puts in its packets
	Addr  string  // name of the peer's command channel
	Label string  // what the peer's owner calls it
	Stage
	// displaced is the endpoint that the address led to before Connect made this one for another
	// incarnation. It ends when this one connects. It is back in its place when this one does not.
	displaced E
}

// Displaced is the endpoint that the address led to before, the zero value if there is none.
func (e *End[E]) Displaced() E { return e.displaced }

func (e *End[E]) key() peerKey { return peerKey{e.Peer, e.Addr} }

// IsLife says whether the peer may be of an incarnation. An endpoint that was made for an address
// alone is of any incarnation until the peer has answered.
func (e *End[E]) IsLife(incarnation uint64) bool {
	return e.Peer.Incarnation == incarnation || e.Peer.Incarnation == 0
}

// Table has the endpoints of an owner. Each has a place, which is part of its tag; it is also found
// by its peer's tag and by its peer's address.
//
//	packet:      tag ----------------------> slots
//	first Hello: incarnation, tag, address > byTag
//	Connect:     address of the peer ------> byAddr --displaced--> those known there before
//
// A Table makes no decisions about endpoints: its owner does.
type Table[E comparable] struct {
	Census
	end    func(E) *End[E] // that of the owner's endpoint
	slots  slots.Table[E]
	byTag  map[peerKey]E
	byAddr map[string]E
	births uint64 // endpoints ever made
}

// slotBits is the part of a tag that is a place; the rest is random.
const slotBits = 20

// Init makes an empty table of at most endpointsMax. End tells which End an endpoint has. Hosts may
// be nil: then each address is a host.
func (t *Table[E]) Init(
	end func(E) *End[E], endpointsMax int, hosts Hosts, limits Limits,
) {
	t.Census.Init(hosts, limits)
	t.end = end
	t.slots.Init(slotBits, endpointsMax)
	t.byTag, t.byAddr = make(map[peerKey]E), make(map[string]E)
}

// Lookup finds the endpoint of a tag, which may be any number, by an index and a compare. It is the
// zero value if there is none.
func (t *Table[E]) Lookup(tag uint64) E {
	ep, _ := t.slots.Get(tag)
	return ep
}

// At returns the endpoint at a place, the zero value if the place is free.
func (t *Table[E]) At(slot uint32) E { return t.slots.At(slot) }

// All are the endpoints by place, with the zero value at places that are free. The slice is the
// table's own, and valid until the next Add.
func (t *Table[E]) All() []E { return t.slots.Values() }

// Len is the number of endpoints.
func (t *Table[E]) Len() int { return t.slots.Len() }

// Alone says whether there is one endpoint only.
func (t *Table[E]) Alone() bool { return t.slots.Len() == 1 }

// Leads counts the peers and the addresses that lead to endpoints.
func (t *Table[E]) Leads() (byPeer, byAddr int) { return len(t.byTag), len(t.byAddr) }

// Full says whether there is no place left.
func (t *Table[E]) Full() bool { return t.slots.Full() }

// Holds says whether an endpoint is in the table still.
func (t *Table[E]) Holds(ep E) bool {
	slot := t.end(ep).Slot
	return int(slot) < len(t.All()) && t.At(slot) == ep
}

// Add gives an endpoint a place, and a tag that nobody can guess. There must be room.
func (t *Table[E]) Add(ep E, random uint64) {
	e := t.end(ep)
	t.births++
	e.Born = t.births
	e.Tag, _ = t.slots.Add(random, ep)
	e.Slot = t.slots.Slot(e.Tag)
	t.Census.Add(e.Addr)
}

// Rename gives an endpoint another tag, for the same place.
func (t *Table[E]) Rename(ep E, random uint64) {
	e := t.end(ep)
	e.Tag = t.slots.Rename(e.Tag, random)
}

// Remove takes an endpoint out, which has ended: from here on no packet, Hello or Connect finds it.
// Its address leads to the latest endpoint that it has displaced and that still lives: the name
// that led to this one was not better.
func (t *Table[E]) Remove(ep E) {
	e := t.end(ep)
	if e.state == Accepting {
		t.RemoveHalfOpen(e.Addr)
	}
	e.state, e.hs = Ended, nil
	t.ForgetPeer(ep)
	t.leaveAddr(ep)
	t.vacate(ep)
}

func (t *Table[E]) vacate(ep E) {
	e := t.end(ep)
	t.slots.Remove(e.Tag)
	t.Census.Remove(e.Addr)
}

// Merge makes an endpoint what half was to the peer, and takes half out.
func (t *Table[E]) Merge(ep, half E) {
	t.vacate(ep)
	e, h := t.end(ep), t.end(half)
	t.slots.Replace(h.Tag, ep)
	if key := h.key(); t.byTag[key] == half {
		t.byTag[key] = ep
	}
	e.Slot, e.Tag, e.Born, e.Peer, e.Label = h.Slot, h.Tag, h.Born, h.Peer, h.Label
}

// ByPeer finds the endpoint that is connected to a peer at an address.
func (t *Table[E]) ByPeer(peer PeerTag, addr string) E { return t.byTag[peerKey{peer, addr}] }

// SetPeer sets an endpoint's peer, by which ByPeer then finds it.
func (t *Table[E]) SetPeer(ep E, peer PeerTag) {
	t.ForgetPeer(ep)
	e := t.end(ep)
	e.Peer = peer
	t.byTag[e.key()] = ep
}

// ForgetPeer makes ByPeer no longer find an endpoint.
func (t *Table[E]) ForgetPeer(ep E) {
	if key := t.end(ep).key(); t.byTag[key] == ep {
		delete(t.byTag, key)
	}
}

// ByAddr is the endpoint that an address leads to.
func (t *Table[E]) ByAddr(addr string) E { return t.byAddr[addr] }

// Known says whether an endpoint is the one that its peer's address leads to.
func (t *Table[E]) Known(ep E) bool { return t.byAddr[t.end(ep).Addr] == ep }

// LeadTo has the address of an endpoint's peer lead to it.
func (t *Table[E]) LeadTo(ep E) { t.byAddr[t.end(ep).Addr] = ep }

// LeadToIfFree is LeadTo if the address leads to no endpoint.
func (t *Table[E]) LeadToIfFree(ep E) {
	var none E
	if t.byAddr[t.end(ep).Addr] == none {
		t.LeadTo(ep)
	}
}

// ForgetAddr makes ByAddr no longer find an endpoint.
func (t *Table[E]) ForgetAddr(ep E) {
	if t.Known(ep) {
		delete(t.byAddr, t.end(ep).Addr)
	}
}

// Linger notes that the peer of a connected endpoint has closed it: a Connect no longer finds the
// endpoint, and no late answer connects it again.
func (t *Table[E]) Linger(ep E) {
	e := t.end(ep)
	e.state, e.hs = Lingering, nil
	t.ForgetAddr(ep)
}

func (t *Table[E]) leaveAddr(ep E) {
	if !t.Known(ep) {
		return
	}
	t.ForgetAddr(ep)
	for d := range t.chain(t.end(ep).displaced) {
		if t.end(d).state < Lingering {
			t.LeadTo(d)
			return
		}
	}
}

// chain yields an endpoint, the one that it has displaced, and so on.
func (t *Table[E]) chain(d E) func(func(E) bool) {
	return func(yield func(E) bool) {
		var none E
		for ; d != none && yield(d); d = t.end(d).displaced {
		}
	}
}

// Displace puts an endpoint that Connect made, or found half open, in the place of the one that was
// known by its address before. That one may have displaced it in turn.
func (t *Table[E]) Displace(ep, old E) {
	if old == ep {
		return
	}
	e := t.end(ep)
	for d := range t.chain(old) {
		if of := t.end(d); of.displaced == ep {
			var none E
			of.displaced, e.displaced = e.displaced, none
		}
	}
	e.displaced = old
	t.LeadTo(ep)
}

// StandBehind puts an endpoint into the chain of those that another one has displaced, unless it
// was there before.
func (t *Table[E]) StandBehind(ep, newer E) {
	for d := range t.chain(t.end(newer).displaced) {
		if d == ep {
			return
		}
	}
	e, n := t.end(ep), t.end(newer)
	e.displaced, n.displaced = n.displaced, ep
}

// EarlierLives are the endpoints that end because the peer was reached in another life by this one:
// those that this one has displaced, and all others of the same address that were made before this
// one, with which the peer has shown since that it receives there. (One that was made later may be
// of a later life: what proves this one may have been under way for long.) They are no longer
// displaced by this one.
func (t *Table[E]) EarlierLives(ep E) (ended []E) {
	var none E
	e := t.end(ep)
	first := e.displaced
	e.displaced = none
	for d := range t.chain(first) {
		of := t.end(d)
		if of.Peer.Incarnation != e.Peer.Incarnation &&
			(of.state == Connecting || of.state == Connected) {
			ended = append(ended, d)
		}
	}
	if t.Census.At(e.Addr) == 1 {
		return ended
	}
	for _, d := range t.All() {
		if d == none {
			continue
		}
		of := t.end(d)
		if of.Addr == e.Addr && of.Born < e.Born && of.Peer.Incarnation != 0 &&
			of.Peer.Incarnation != e.Peer.Incarnation {
			ended = append(ended, d)
		}
	}
	return ended
}

// Free says whether an endpoint, whose tag was offered to an end of the peer (0: to none), may deal
// with the end of the peer that has another tag. It may if it was offered to that one, or to an end
// that a connection of this side deals with: that one has answered there, and an end deals with one
// only.
func (t *Table[E]) Free(ep E, offered, tag uint64) bool {
	if offered == 0 || offered == tag {
		return true
	}
	e := t.end(ep)
	var none E
	other := t.ByPeer(PeerTag{e.Peer.Incarnation, offered}, e.Addr)
	if other == none || other == ep {
		return false
	}
	state := t.end(other).state
	return state == Connected || state == Lingering
}

// OfOtherLives counts the endpoints at an address that were connected with another life of a peer.
func (t *Table[E]) OfOtherLives(addr string, life uint64) (n int) {
	var none E
	for _, ep := range t.All() {
		if ep == none {
			continue
		}
		e := t.end(ep)
		if e.Addr == addr && !e.IsLife(life) && (e.state == Connected || e.state == Lingering) {
			n++
		}
	}
	return n
}

// OldestLingering is the oldest endpoint at an address that only repeats its last ACK to a life of
// a peer, the zero value if there is none.
func (t *Table[E]) OldestLingering(addr string, life uint64) (oldest E) {
	var none E
	for _, ep := range t.All() {
		if ep == none {
			continue
		}
		e := t.end(ep)
		if e.state == Lingering && e.Addr == addr && e.IsLife(life) &&
			(oldest == none || e.Born < t.end(oldest).Born) {
			oldest = ep
		}
	}
	return oldest
}

// HalfOpenTo finds the latest half-open endpoint of a module that is known by its address, and by
// its incarnation unless that is 0. It need not be the one of ByAddr, where an earlier connection
// may be on its way out.
func (t *Table[E]) HalfOpenTo(incarnation uint64, addr string) (found E) {
	if t.HalfOpen() == 0 {
		return found
	}
	var none E
	for _, ep := range t.All() {
		if ep == none {
			continue
		}
		e := t.end(ep)
		if e.state == Accepting && e.Addr == addr &&
			(incarnation == 0 || e.Peer.Incarnation == incarnation) &&
			(found == none || e.Born > t.end(found).Born) {
			found = ep
		}
	}
	return found
}

// displacesItself says whether the chain of endpoints that were displaced comes back to one of it
// (Floyd's tortoise and hare).
func (t *Table[E]) displacesItself(ep E) bool {
	var none E
	slow, fast := ep, ep
	for fast != none && t.end(fast).displaced != none {
		slow, fast = t.end(slow).displaced, t.end(t.end(fast).displaced).displaced
		if slow == fast {
			return true
		}
	}
	return false
}

// Check proves that each endpoint is where it says, and that what leads to endpoints leads to those
// that say so. It allocates nothing.
func (t *Table[E]) Check() error {
	var none E
	byTag, byAddr, half := 0, 0, 0
	for slot, ep := range t.All() {
		if ep == none {
			continue
		}
		e := t.end(ep)
		switch {
		case t.Lookup(e.Tag) != ep || e.Slot != uint32(slot):
			return fmt.Errorf("endpoint %d: its tag %#x is not its own", slot, e.Tag)
		case e.state > Lingering:
			return fmt.Errorf("endpoint %d: ended, but has a slot", slot)
		case t.displacesItself(ep):
			return fmt.Errorf("endpoint %d: it has displaced itself", slot)
		}
		if t.byTag[e.key()] == ep {
			byTag++
		}
		if t.Known(ep) {
			byAddr++
		}
		if e.state == Accepting {
			half++
		}
	}
	switch {
	case byTag != len(t.byTag):
		return fmt.Errorf("%d connection tags, %d endpoints", len(t.byTag), byTag)
	case byAddr != len(t.byAddr):
		return fmt.Errorf("%d addresses, %d endpoints", len(t.byAddr), byAddr)
	}
	if err := t.Census.Check(t.Len(), half); err != nil {
		return err
	}
	return t.slots.Check()
}
