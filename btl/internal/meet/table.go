package meet

import (
	"fmt"

	"gobtl/btl/internal/share"
	"gobtl/internal/slots"
)

// Table contains the endpoints of a module. Each endpoint has a slot, whose number is a part of the
// endpoint's tag. A Table finds an endpoint by the peer's connection tag and address, or by the
// peer's address alone.
//
//	packet       tag ----------------------> slots
//	first Hello  incarnation, tag, address > the endpoints at that address (Census)
//	Connect      address of the peer ------> byAddr --displaced--> earlier endpoints
//
// A Table makes no decisions about endpoints.
type Table[E comparable] struct {
	Census[E]
	end    func(E) *End[E] // returns the End of an endpoint
	slots  slots.Table[E]
	byAddr map[string]E
	births uint64 // number of endpoints that were ever added
}

// The lowest slotBits bits of a connection tag are the slot number. The remaining bits of a
// connection tag are random.
const slotBits = 20

// Init makes an empty table for at most endpointsMax endpoints. The function "end" returns the End
// of an endpoint. If the argument "hosts" of Init is nil, each address counts as its own host.
func (t *Table[E]) Init(
	end func(E) *End[E], endpointsMax int, hosts Hosts, limits Limits,
) {
	t.Census.Init(hosts, limits)
	t.end = end
	t.slots.Init(slotBits, endpointsMax)
	t.byAddr = make(map[string]E)
}

// Lookup returns the endpoint with the given connection tag, in constant time. If no endpoint has
// the given tag, Lookup returns the zero value.
func (t *Table[E]) Lookup(tag uint64) E {
	ep, _ := t.slots.Get(tag)
	return ep
}

// At returns the endpoint in a slot, or the zero value if the slot is free.
func (t *Table[E]) At(slot uint32) E { return t.slots.At(slot) }

// All returns the endpoints by slot, with the zero value in free slots. The slice that All returns
// belongs to the table, and is valid until the next Add.
func (t *Table[E]) All() []E { return t.slots.Values() }

// Len returns the number of endpoints.
func (t *Table[E]) Len() int { return t.slots.Len() }

// Sole reports whether the table has exactly one endpoint.
func (t *Table[E]) Sole() bool { return t.slots.Len() == 1 }

// Soles reports whether the table has exactly one endpoint, and whether it has endpoints of exactly
// one host.
func (t *Table[E]) Soles() share.Sole { return share.Sole{Endpoint: t.Sole(), Host: t.SoleHost()} }

// Leads returns the number of endpoints that ByPeer can find, and the number of endpoints that
// ByAddr can find.
func (t *Table[E]) Leads() (byPeer, byAddr int) {
	var none E
	for _, ep := range t.All() {
		if ep != none && t.end(ep).byPeer {
			byPeer++
		}
	}
	return byPeer, len(t.byAddr)
}

// Full reports whether no slot is free.
func (t *Table[E]) Full() bool { return t.slots.Full() }

// Holds reports whether the table contains an endpoint.
func (t *Table[E]) Holds(ep E) bool {
	slot := t.end(ep).Slot()
	return int(slot) < len(t.All()) && t.At(slot) == ep
}

// Add gives an endpoint a slot and an unpredictable connection tag. The caller may call Add only if
// a slot is free.
func (t *Table[E]) Add(ep E, random uint64) {
	e := t.end(ep)
	t.births++
	e.Born = t.births
	e.Tag, _ = t.slots.Add(random, ep)
	e.Host = t.enter(ep, e.Addr)
}

// Rename gives an endpoint a new connection tag, but leaves it in its slot.
func (t *Table[E]) Rename(ep E, random uint64) {
	e := t.end(ep)
	e.Tag = t.slots.Rename(e.Tag, random)
}

// Remove removes an endpoint that has ended, so that packets, Hellos and Connects no longer find
// the endpoint. If the removed endpoint has displaced endpoints of the same address, Remove
// registers the latest displaced endpoint that is still in use.
func (t *Table[E]) Remove(ep E) {
	e := t.end(ep)
	if e.State == Accepting {
		t.endHalf(ep, e.Addr)
	}
	e.State, e.Handshake = Ended, nil
	t.ForgetPeer(ep)
	t.leaveAddr(ep)
	t.slots.Remove(e.Tag)
	t.leave(ep, e.Addr)
}

// Move changes the address of an endpoint's peer. Move does not change the endpoint's field Host.
// If the fabric can tell hosts apart, the peer's new address belongs to the same host. The caller
// must not call Move for an endpoint that is bound to an endpoint of the peer. If a connected
// endpoint is already registered for the new address, Move leaves this connected endpoint
// registered.
func (t *Table[E]) Move(ep E, addr string) {
	var none E
	e := t.end(ep)
	t.leaveAddr(ep)
	for _, of := range t.atAddr[e.Addr] { // ended endpoints of a chain have no slot
		for d := range t.chain(of) {
			if t.end(d).Displaced() == ep {
				t.end(d).setDisplaced(e.Displaced())
			}
		}
	}
	e.setDisplaced(none)
	t.enter(ep, addr) // before it leaves, so that the Host stays
	t.leave(ep, e.Addr)
	e.Addr = addr
	if there := t.ByAddr(addr); there != none && t.end(there).State == Connected {
		t.StandBehind(ep, there)
	} else {
		t.Displace(ep, there)
	}
}

// Merge moves the connection tag, the slot and the peer of the half-open endpoint "half" to the
// endpoint "ep", and removes the half-open endpoint. Both endpoints have the same address.
func (t *Table[E]) Merge(ep, half E) {
	e, h := t.end(ep), t.end(half)
	t.slots.Remove(e.Tag)
	t.leave(half, h.Addr)
	t.slots.Replace(h.Tag, ep)
	e.Tag, e.Born, e.Peer = h.Tag, h.Born, h.Peer
	e.byPeer, h.byPeer = h.byPeer, false
	e.setLabel(h.Label())
}

// ByPeer returns the local endpoint that is bound to the peer's endpoint with the given tag and
// address, or the zero value if no local endpoint is bound to it. ByPeer examines all endpoints of
// the address, whose number is limited by Limits.PerAddress.
func (t *Table[E]) ByPeer(peer PeerTag, addr string) (found E) {
	for _, ep := range t.atAddr[addr] {
		if e := t.end(ep); e.byPeer && e.Peer == peer {
			return ep
		}
	}
	return found
}

// SetPeer sets the peer tag of an endpoint, by which ByPeer finds the endpoint. If a different
// endpoint had the same peer tag before, ByPeer no longer finds this different endpoint.
func (t *Table[E]) SetPeer(ep E, peer PeerTag) {
	var none E
	e := t.end(ep)
	if old := t.ByPeer(peer, e.Addr); old != none {
		t.ForgetPeer(old)
	}
	e.Peer, e.byPeer = peer, true
}

// ForgetPeer makes ByPeer no longer find an endpoint.
func (t *Table[E]) ForgetPeer(ep E) { t.end(ep).byPeer = false }

// ByAddr returns the endpoint that is registered for an address, or the zero value if no endpoint
// is registered for it.
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
// Connect does not find the endpoint, and a late HelloAck cannot make the endpoint connected again.
func (t *Table[E]) Linger(ep E) {
	e := t.end(ep)
	e.State, e.Handshake = Lingering, nil
	t.ForgetAddr(ep)
}

func (t *Table[E]) leaveAddr(ep E) {
	if !t.Known(ep) {
		return
	}
	t.ForgetAddr(ep)
	for d := range t.chain(t.end(ep).Displaced()) {
		if t.end(d).State < Lingering {
			t.LeadTo(d)
			return
		}
	}
}

// The method "chain" yields the endpoint d, and then, for each yielded endpoint, the endpoint that
// it has displaced.
func (t *Table[E]) chain(d E) func(func(E) bool) {
	return func(yield func(E) bool) {
		var none E
		for ; d != none && yield(d); d = t.end(d).Displaced() {
		}
	}
}

// Displace registers the endpoint "ep" for its peer's address, in place of the endpoint "old". If
// the endpoint "ep" is in the chain of endpoints that the endpoint "old" has displaced, Displace
// first removes "ep" from this chain.
func (t *Table[E]) Displace(ep, old E) {
	if old == ep {
		return
	}
	e := t.end(ep)
	for d := range t.chain(old) {
		if of := t.end(d); of.Displaced() == ep {
			var none E
			of.setDisplaced(e.Displaced())
			e.setDisplaced(none)
		}
	}
	e.setDisplaced(old)
	t.LeadTo(ep)
}

// StandBehind adds the endpoint "ep" to the chain of endpoints that the endpoint "newer" has
// displaced, unless this chain already contains "ep".
func (t *Table[E]) StandBehind(ep, newer E) {
	for d := range t.chain(t.end(newer).Displaced()) {
		if d == ep {
			return
		}
	}
	e, n := t.end(ep), t.end(newer)
	e.setDisplaced(n.Displaced())
	n.setDisplaced(ep)
}

// EarlierLives returns the endpoints that must end because the peer's incarnation to which they
// belong is older than the incarnation of endpoint ep. The result of EarlierLives contains the
// endpoints of a different incarnation that endpoint ep has displaced, or that have the same
// address and were made before endpoint ep. An endpoint that was made after endpoint ep possibly
// belongs to a later incarnation, because the packet that validated the peer's address can be old.
// EarlierLives also empties the chain of endpoints that endpoint ep has displaced.
func (t *Table[E]) EarlierLives(ep E) (ended []E) {
	var none E
	e := t.end(ep)
	first := e.Displaced()
	e.setDisplaced(none)
	for d := range t.chain(first) {
		of := t.end(d)
		if of.Peer.Incarnation != e.Peer.Incarnation &&
			(of.State == Connecting || of.State == Connected) {
			ended = append(ended, d)
		}
	}
	for _, d := range t.atAddr[e.Addr] {
		of := t.end(d)
		if of.Born < e.Born && of.Peer.Incarnation != 0 &&
			of.Peer.Incarnation != e.Peer.Incarnation {
			ended = append(ended, d)
		}
	}
	return ended
}

// Free reports whether it is allowed to bind the endpoint "ep" to the peer's endpoint with the
// connection tag "tag". The argument "offered" of Free is the tag of the peer's endpoint to which
// the tag of endpoint "ep" was sent, or 0 if it was sent to none. Free returns true if "offered" is
// 0 or equals "tag", or if the peer's endpoint "offered" is connected to a different local
// endpoint. A peer's endpoint cannot be connected to two local endpoints.
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
	state := t.end(other).State
	return state == Connected || state == Lingering
}

// OfOtherLives returns the number of endpoints at an address that were connected to an incarnation
// of the peer other than the given one.
func (t *Table[E]) OfOtherLives(addr string, life uint64) (n int) {
	for _, ep := range t.atAddr[addr] {
		e := t.end(ep)
		if !e.IsLife(life) && (e.State == Connected || e.State == Lingering) {
			n++
		}
	}
	return n
}

// OldestLingering returns the oldest endpoint at an address that the given incarnation of the peer
// has closed. If the given incarnation has closed no endpoint at the address, OldestLingering
// returns the zero value. A lingering endpoint only repeats its last ACK.
func (t *Table[E]) OldestLingering(addr string, life uint64) (oldest E) {
	var none E
	for _, ep := range t.atAddr[addr] {
		e := t.end(ep)
		if e.State == Lingering && e.IsLife(life) &&
			(oldest == none || e.Born < t.end(oldest).Born) {
			oldest = ep
		}
	}
	return oldest
}

// HalfOpenTo returns the latest half-open endpoint for a module with the given address and
// incarnation, where an incarnation of 0 means any incarnation. For the same address, ByAddr can
// return an endpoint whose connection is about to end, and HalfOpenTo the half-open endpoint of the
// next connection.
func (t *Table[E]) HalfOpenTo(incarnation uint64, addr string) (found E) {
	var none E
	for _, ep := range t.atAddr[addr] {
		e := t.end(ep)
		if e.State == Accepting &&
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
	for fast != none && t.end(fast).Displaced() != none {
		slow, fast = t.end(slow).Displaced(), t.end(t.end(fast).Displaced()).Displaced()
		if slow == fast {
			return true
		}
	}
	return false
}

// Check returns an error if an endpoint is not in its slot, or if the indexes by peer and by
// address are inconsistent, and nil otherwise. Check allocates no memory.
func (t *Table[E]) Check() error {
	var none E
	byAddr, half := 0, 0
	for slot, ep := range t.All() {
		if ep == none {
			continue
		}
		e := t.end(ep)
		switch {
		case t.Lookup(e.Tag) != ep || e.Slot() != uint32(slot):
			return fmt.Errorf("endpoint %d: its tag %#x is not its own", slot, e.Tag)
		case e.State > Lingering:
			return fmt.Errorf("endpoint %d: ended, but has a slot", slot)
		case t.displacesItself(ep):
			return fmt.Errorf("endpoint %d: it has displaced itself", slot)
		case e.byPeer && t.ByPeer(e.Peer, e.Addr) != ep:
			return fmt.Errorf("endpoint %d: its connection tags lead to another endpoint", slot)
		}
		if t.Known(ep) {
			byAddr++
		}
		if e.State == Accepting {
			half++
		}
	}
	if byAddr != len(t.byAddr) {
		return fmt.Errorf("%d addresses, %d endpoints", len(t.byAddr), byAddr)
	}
	if err := t.Census.Check(t.Len(), half); err != nil {
		return err
	}
	return t.slots.Check()
}
