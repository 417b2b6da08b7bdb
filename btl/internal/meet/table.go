package meet

import (
	"fmt"

	"gobtl/internal/slots"
)

// PeerTag identifies one connection of one incarnation of a peer.
type PeerTag struct{ Incarnation, Tag uint64 }

// peerKey is a PeerTag with the address of the peer's command channel. Because a peerKey
// contains the address, a host that knows only the tag cannot replace the peer.
type peerKey struct {
	PeerTag
	addr string
}

// End identifies an endpoint's connection on both sides. E is the type of endpoints, which contain
// their End by value.
type End[E any] struct {
	Tag   uint64  // tag in the packets of the peer, with the slot in its low bits
	Slot  uint32  // the place in the Table
	Born  uint64  // the number among all endpoints ever made, from 1 on
	Peer  PeerTag // incarnation and tag of the peer, for packets to the peer
	Addr  string  // name of the peer's command channel
	Label string  // label of the peer
	Stage
	// displaced is the endpoint of another incarnation that was registered for the peer's address
	// before Connect made this endpoint.
	displaced E
}

// Displaced returns the endpoint that was registered for the peer's address before endpoint e, or
// the zero value.
func (e *End[E]) Displaced() E { return e.displaced }

func (e *End[E]) key() peerKey { return peerKey{e.Peer, e.Addr} }

// IsLife reports whether the peer may have the given incarnation. The incarnation of an endpoint
// that was made from an address alone is unknown until the peer has answered.
func (e *End[E]) IsLife(incarnation uint64) bool {
	return e.Peer.Incarnation == incarnation || e.Peer.Incarnation == 0
}

// Table holds the endpoints of a module. Each endpoint has a slot, whose number is a part of the
// endpoint's tag. An endpoint is also found by its peer's tag and by its peer's address.
//
//	packet       tag ----------------------> slots
//	first Hello  incarnation, tag, address > byTag
//	Connect      address of the peer ------> byAddr --displaced--> earlier endpoints
//
// A Table makes no decisions about endpoints.
type Table[E comparable] struct {
	Census
	end    func(E) *End[E] // returns the End of an endpoint
	slots  slots.Table[E]
	byTag  map[peerKey]E
	byAddr map[string]E
	births uint64 // endpoints ever made
}

// slotBits is the number of bits of a tag that hold the slot. The other bits are random.
const slotBits = 20

// Init makes an empty table for at most endpointsMax endpoints. The function end returns the End of
// an endpoint. If hosts is nil, each address counts as its own host.
func (t *Table[E]) Init(
	end func(E) *End[E], endpointsMax int, hosts Hosts, limits Limits,
) {
	t.Census.Init(hosts, limits)
	t.end = end
	t.slots.Init(slotBits, endpointsMax)
	t.byTag, t.byAddr = make(map[peerKey]E), make(map[string]E)
}

// Lookup returns the endpoint with the given tag, by an index and a comparison. For a number that
// is not the tag of an endpoint, Lookup returns the zero value.
func (t *Table[E]) Lookup(tag uint64) E {
	ep, _ := t.slots.Get(tag)
	return ep
}

// At returns the endpoint in a slot, or the zero value if the slot is free.
func (t *Table[E]) At(slot uint32) E { return t.slots.At(slot) }

// All returns the endpoints by slot, with the zero value in free slots. The slice that All returns
// belongs to the table, and is valid until the next Add.
func (t *Table[E]) All() []E { return t.slots.Values() }

// Len is the number of endpoints.
func (t *Table[E]) Len() int { return t.slots.Len() }

// Alone reports whether the table has exactly one endpoint.
func (t *Table[E]) Alone() bool { return t.slots.Len() == 1 }

// Leads returns the number of endpoints registered by peer tag, and by address.
func (t *Table[E]) Leads() (byPeer, byAddr int) { return len(t.byTag), len(t.byAddr) }

// Full reports whether no slot is free.
func (t *Table[E]) Full() bool { return t.slots.Full() }

// Holds reports whether the table contains an endpoint.
func (t *Table[E]) Holds(ep E) bool {
	slot := t.end(ep).Slot
	return int(slot) < len(t.All()) && t.At(slot) == ep
}

// Add gives an endpoint a slot and an unpredictable tag. A slot must be free.
func (t *Table[E]) Add(ep E, random uint64) {
	e := t.end(ep)
	t.births++
	e.Born = t.births
	e.Tag, _ = t.slots.Add(random, ep)
	e.Slot = t.slots.Slot(e.Tag)
	t.Census.Add(e.Addr)
}

// Rename gives an endpoint another tag for the same slot.
func (t *Table[E]) Rename(ep E, random uint64) {
	e := t.end(ep)
	e.Tag = t.slots.Rename(e.Tag, random)
}

// Remove removes an endpoint that has ended, so that later packets, Hellos and Connects do not find
// the endpoint. Of the endpoints that the removed endpoint has displaced, the latest living one is
// registered again for the address.
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

// Move gives an endpoint, whose peer's tag is not known, another address of its peer. If a
// connected endpoint is registered for the new address, it stays registered.
func (t *Table[E]) Move(ep E, addr string) {
	var none E
	e := t.end(ep)
	t.leaveAddr(ep)
	for _, of := range t.All() { // ended endpoints of a chain have no slot
		for d := range t.chain(of) {
			if t.end(d).displaced == ep {
				t.end(d).displaced = e.displaced
			}
		}
	}
	e.displaced = none
	t.Census.Remove(e.Addr)
	e.Addr = addr
	t.Census.Add(addr)
	if there := t.ByAddr(addr); there != none && t.end(there).state == Connected {
		t.StandBehind(ep, there)
	} else {
		t.Displace(ep, there)
	}
}

// Merge makes ep take over the tag, the slot and the peer of half, and removes half.
func (t *Table[E]) Merge(ep, half E) {
	t.vacate(ep)
	e, h := t.end(ep), t.end(half)
	t.slots.Replace(h.Tag, ep)
	if key := h.key(); t.byTag[key] == half {
		t.byTag[key] = ep
	}
	e.Slot, e.Tag, e.Born, e.Peer, e.Label = h.Slot, h.Tag, h.Born, h.Peer, h.Label
}

// ByPeer returns the endpoint that is connected to a peer's tag at an address.
func (t *Table[E]) ByPeer(peer PeerTag, addr string) E { return t.byTag[peerKey{peer, addr}] }

// SetPeer sets the peer tag of an endpoint, by which ByPeer finds the endpoint.
func (t *Table[E]) SetPeer(ep E, peer PeerTag) {
	t.ForgetPeer(ep)
	e := t.end(ep)
	e.Peer = peer
	t.byTag[e.key()] = ep
}

// ForgetPeer removes an endpoint from the index that ByPeer uses.
func (t *Table[E]) ForgetPeer(ep E) {
	if key := t.end(ep).key(); t.byTag[key] == ep {
		delete(t.byTag, key)
	}
}

// ByAddr returns the endpoint registered for an address, or the zero value.
func (t *Table[E]) ByAddr(addr string) E { return t.byAddr[addr] }

// Known reports whether an endpoint is the one registered for its peer's address.
func (t *Table[E]) Known(ep E) bool { return t.byAddr[t.end(ep).Addr] == ep }

// LeadTo registers an endpoint for its peer's address.
func (t *Table[E]) LeadTo(ep E) { t.byAddr[t.end(ep).Addr] = ep }

// LeadToIfFree registers an endpoint for its peer's address, if no endpoint is registered for this
// address.
func (t *Table[E]) LeadToIfFree(ep E) {
	var none E
	if t.byAddr[t.end(ep).Addr] == none {
		t.LeadTo(ep)
	}
}

// ForgetAddr removes an endpoint from the index that ByAddr uses.
func (t *Table[E]) ForgetAddr(ep E) {
	if t.Known(ep) {
		delete(t.byAddr, t.end(ep).Addr)
	}
}

// Linger records that the peer of a connected endpoint has closed the connection. After Linger,
// Connect does not find the endpoint, and no late HelloAck connects the endpoint again.
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

// chain yields an endpoint, the endpoint that it has displaced, and so on.
func (t *Table[E]) chain(d E) func(func(E) bool) {
	return func(yield func(E) bool) {
		var none E
		for ; d != none && yield(d); d = t.end(d).displaced {
		}
	}
}

// Displace registers ep for its peer's address in place of old, the endpoint that was registered
// for this address. If ep has already displaced old, Displace only corrects the order of the
// chain of displaced endpoints.
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

// StandBehind adds ep to the chain of endpoints that newer has displaced, unless ep is in that
// chain.
func (t *Table[E]) StandBehind(ep, newer E) {
	for d := range t.chain(t.end(newer).displaced) {
		if d == ep {
			return
		}
	}
	e, n := t.end(ep), t.end(newer)
	e.displaced, n.displaced = n.displaced, ep
}

// EarlierLives returns the endpoints that must end because another incarnation of the peer was
// reached through ep. EarlierLives returns the endpoints that ep has displaced, and also all
// endpoints of the same address that were made before ep. An endpoint that was made after ep may be
// of a later incarnation, because the proof for ep may be late. EarlierLives removes the returned
// endpoints from the chain of endpoints that ep has displaced.
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

// Free reports whether ep may be bound to the peer's endpoint with the given tag. The argument
// offered of Free is the tag of the peer's endpoint to which ep's tag was sent, or 0 if there is
// none. Free returns true if offered is 0 or equals tag, or if another local endpoint is bound to
// the peer's endpoint with the tag offered, because a peer endpoint is bound to one endpoint only.
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

// OfOtherLives counts the endpoints at an address that were connected to another incarnation of the
// peer.
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

// OldestLingering returns the oldest lingering endpoint for an incarnation of a peer at an address,
// or the zero value. A lingering endpoint only repeats its last ACK.
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

// HalfOpenTo returns the latest half-open endpoint for a module with the given address and
// incarnation, where 0 means any. ByAddr may return a different endpoint for the same address,
// which is an earlier connection that is about to end.
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

// displacesItself reports whether the chain of displaced endpoints contains a cycle (Floyd's
// tortoise and hare algorithm).
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

// Check verifies that each endpoint is in its slot, and that the indexes by peer and by address are
// consistent. Check allocates no memory.
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
