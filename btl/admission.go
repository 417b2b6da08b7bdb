package btl

import (
	"bytes"
	"strconv"

	"gobtl/frag"
)

// Request describes a peer that wants to connect. Its slices are valid only during the call.
type Request struct {
	Address     string // of the peer's command channel, as it is seen here: "192.0.2.1:4000"
	Command     []byte // the same as the fabric writes it
	Data        []byte // of its data channel
	Label       []byte // what its owner calls it (Config.Label); anybody can say anything
	Incarnation uint64 // which life of the peer's module
}

// Is says whether the peer is the module of that name, of the same incarnation. An impostor who
// knows the name, but cannot receive at its address, is not that module.
func (r *Request) Is(name []byte) bool {
	n, err := frag.ParseName(name)
	return err == nil && r.Incarnation == n.Incarnation && bytes.Equal(r.Command, n.Command)
}

// Verdict is the owner's answer to a Request.
type Verdict struct {
	reason uint8
	code   uint16
}

// Accept is the Verdict that lets the peer connect.
func Accept() Verdict { return Verdict{} }

// Refuse tells a peer that it is not wanted: its Connect ends with a RefusedError that has the
// code.
func Refuse(code uint16) Verdict { return Verdict{frag.RejectOwner, code} }

// Defer refuses a peer for now. The peer asks again, at least twice a second, until its handshake
// times out; each time the owner is asked.
func Defer(code uint16) Verdict { return Verdict{frag.RejectLater, code} }

// Admit sets fn to decide on each incoming connection, except from peers that this side connects to
// itself. With nil, the initial setting, every peer is accepted. A peer has proven by then that it
// receives at both its addresses. An accepted peer may still fail before it is connected. Progress
// calls fn, which may do what a handler may. fn may see a peer twice if its first packets repeat,
// and sees it again if its label changes.
func (m *Module) Admit(fn func(Request) Verdict) { m.admission = fn }

// PeerLabel is the label that the peer claims (Config.Label), empty until it is known.
func (ep *Endpoint) PeerLabel() string { return ep.id.Label }

// RemoteName is the peer's human-readable name: its label, quoted, if it has one, and its address.
func (ep *Endpoint) RemoteName() string {
	if ep.id.Label == "" {
		return ep.PeerAddress()
	}
	return strconv.Quote(ep.id.Label) + " at " + ep.PeerAddress()
}

// StateName says in a word how far the connection is: connecting, accepting, connected, lingering
// (the peer has closed it), or ended.
func (ep *Endpoint) StateName() string { return ep.id.State().String() }
