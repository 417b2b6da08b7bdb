package meet

import "gobtl/btl/internal/share"

// PeerTag identifies one connection of one incarnation of a peer.
type PeerTag struct{ Incarnation, Tag uint64 }

// peerKey is a PeerTag with the address of the peer's command channel. Because a peerKey contains
// the address, a host that knows the tag of a peer cannot impersonate the peer from a different
// address.
type peerKey struct {
	PeerTag
	addr string
}

// End identifies an endpoint's connection on both sides. The type parameter E is the type of an
// endpoint, which contains its End by value.
type End[E comparable] struct {
	Tag  uint64      // tag in the packets of the peer, with the slot in its low bits
	Born uint64      // serial number among all endpoints that the module has made, from 1 on
	Peer PeerTag     // incarnation and tag of the peer, for packets to the peer
	Addr string      // name of the peer's command channel
	Host *share.Host // counts of the peer's host, also after the end of the endpoint
	rare *rare[E]    // nil if nothing in it is set
	Stage
}

// The type "rare" contains the fields of an End that only few endpoints need.
type rare[E comparable] struct {
	label     string // of the peer
	displaced E      // the endpoint that was registered for the peer's address before this endpoint
}

// needRare returns the field "rare" of an End. The first call of needRare for an End allocates the
// field "rare".
func (e *End[E]) needRare() *rare[E] {
	if e.rare == nil {
		e.rare = new(rare[E])
	}
	return e.rare
}

// Label returns the label of the peer.
func (e *End[E]) Label() string {
	if e.rare == nil {
		return ""
	}
	return e.rare.label
}

func (e *End[E]) setLabel(label string) {
	if label != e.Label() {
		e.needRare().label = label
	}
}

// Displaced returns the endpoint that was registered for the peer's address before endpoint e, or
// the zero value if no endpoint was registered.
func (e *End[E]) Displaced() (d E) {
	if e.rare != nil {
		d = e.rare.displaced
	}
	return d
}

func (e *End[E]) setDisplaced(d E) {
	if d != e.Displaced() {
		e.needRare().displaced = d
	}
}

// Slot returns the index of the endpoint in the Table, which is stored in the low bits of the
// endpoint's tag.
func (e *End[E]) Slot() uint32 { return uint32(e.Tag & (1<<slotBits - 1)) }

// IsLife reports whether the peer has the given incarnation, and returns true if the peer's
// incarnation is unknown. If an endpoint was made from an address without an incarnation, the
// peer's incarnation is unknown until the peer answers.
func (e *End[E]) IsLife(incarnation uint64) bool {
	return e.Peer.Incarnation == incarnation || e.Peer.Incarnation == 0
}
