package btl

import (
	"bytes"
	"strconv"

	"gobtl/frag"
)

// Request describes a peer that wants to connect. The slices of a Request are valid only during the
// call.
type Request struct {
	Address     string // address of the peer's command channel, such as "192.0.2.1:4000"
	Command     []byte // that address in the fabric's format
	Data        []byte // address of the peer's data channel
	Label       []byte // the peer's Config.Label; not authenticated
	Incarnation uint64 // incarnation of the peer's module
}

// Is reports whether the peer is the module with the given name and incarnation. If Is returns
// true, the peer has proven that it receives at the address in the name.
func (r *Request) Is(name []byte) bool {
	n, err := frag.ParseName(name)
	return err == nil && r.Incarnation == n.Incarnation && bytes.Equal(r.Command, n.Command)
}

// Verdict is the application's answer to a Request.
type Verdict struct {
	reason uint8
	code   uint16
}

// Accept is the Verdict that lets the peer connect.
func Accept() Verdict { return Verdict{} }

// Refuse is the Verdict that rejects a peer for good. If this side refuses a peer, the
// peer's Connect fails with a RefusedError that contains the code of the refusal.
func Refuse(code uint16) Verdict { return Verdict{frag.RejectOwner, code} }

// Defer is the Verdict that rejects a peer for now. A connecting peer repeats its request
// at least twice a second until its handshake times out. Each repeated connection request
// of a peer causes another call of the function given to Admit.
func Defer(code uint16) Verdict { return Verdict{frag.RejectLater, code} }

// Admit sets the function fn that decides on each incoming connection, except from peers to
// which this side connects itself. If fn is nil, which is the initial setting, every peer
// is accepted. When Admit calls fn, the peer has proven that it receives at both its
// addresses. The handshake may fail even after fn has accepted the peer. The function fn
// may do what a handler may do. Each repeated packet of a connecting peer, and a change of
// the peer's label, may cause another call of fn.
func (m *Module) Admit(fn func(Request) Verdict) { m.admission = fn }

// PeerLabel is the label that the peer claims (Config.Label), or empty if the peer has not sent a
// label.
func (ep *Endpoint) PeerLabel() string { return ep.id.Label }

// RemoteName is a readable name of the peer, with its quoted label, if any, and its address.
func (ep *Endpoint) RemoteName() string {
	if ep.id.Label == "" {
		return ep.PeerAddress()
	}
	return strconv.Quote(ep.id.Label) + " at " + ep.PeerAddress()
}
