package btl

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/frag"
)

// Request describes a peer that wants to connect. The slices of a Request are valid only during the
// call, and Decide may be called later.
type Request struct {
	Address     string // address of the peer's command channel, such as "192.0.2.1:4000"
	Command     []byte // that address in the fabric's format
	Data        []byte // address of the peer's data channel
	Label       []byte // the peer's Config.Label; not authenticated
	Incarnation uint64 // incarnation of the peer's module

	m  *Module
	id uint64 // number of the request in package meet; 0: it cannot be kept
}

// Is reports whether the peer is the module with the given name and incarnation. If Is returns
// true, the peer has shown by an answer that it receives at the address in the name.
func (r *Request) Is(name []byte) bool {
	n, err := frag.ParseName(name)
	return err == nil && r.Incarnation == n.Incarnation && bytes.Equal(r.Command, n.Command)
}

// Verdict is the application's answer to a Request.
type Verdict struct {
	reason uint8
	code   uint16
	moves  bool
	moved  string // name of another module, if moves
}

// Accept is the Verdict that lets the peer connect.
func Accept() Verdict { return Verdict{} }

// Refuse is the Verdict that rejects a peer for good. If this side refuses a peer, the
// peer's Connect fails with a RefusedError that contains the code of the refusal.
func Refuse(code uint16) Verdict { return Verdict{reason: frag.RejectOwner, code: code} }

// Defer is the Verdict that rejects a peer for now. A connecting peer repeats its request
// at least twice a second until its handshake times out. Each repeated connection request
// of a peer causes another call of the function given to Admit.
func Defer(code uint16) Verdict { return Verdict{reason: frag.RejectLater, code: code} }

// KeepMax is the longest time for which a connection request is kept.
const KeepMax = meet.KeepMax

// Keep is the Verdict that keeps a connection request until a later call of Request.Decide, but at
// most for the time wait, 1 ms to KeepMax. A wait outside this range is replaced by the nearer end
// of the range. The peer sends no further Hellos meanwhile, and its HandshakeTimeout begins again
// when the wait is over. If the application has not decided after the wait, the request is
// forgotten, and a peer that asks again causes a new Request. A peer of a version without support
// for Keep asks at least twice a second until its handshake times out, as after Defer. If the
// module has no room to keep the request (Request.MayKeep), Keep acts like Defer(0).
func Keep(wait time.Duration) Verdict {
	wait = max(time.Millisecond, min(wait, KeepMax))
	return Verdict{reason: frag.RejectKept, code: uint16(wait / time.Millisecond)}
}

// MoveTo is the Verdict that sends a peer to another module of this process. The argument name is
// the result of Module.Name of the other module, which has the same provider and the same host
// address as this module. The peer's endpoint connects to the other module, and the function given
// to Admit of the other module decides on the request. A peer follows only one MoveTo. A peer of a
// version without support for MoveTo is refused with code 0. If name is malformed, every peer is
// refused with code 0.
func MoveTo(name []byte) Verdict { return Verdict{moves: true, moved: string(name)} }

// answer returns the Answer for package meet, for a module of the given provider. The result of
// answer is ErrBadName for a MoveTo to a name that is not of this provider.
func (v Verdict) answer(provider string) (meet.Answer, error) {
	if v.moves {
		n, err := frag.ParseName([]byte(v.moved))
		if err != nil || n.Provider != provider {
			return meet.Answer{}, fmt.Errorf("%w: a peer cannot be moved there", ErrBadName)
		}
	}
	return meet.Answer{
		Reject: frag.Reject{Reason: v.reason, Code: v.code}, Moved: []byte(v.moved),
	}, nil
}

// MayKeep reports whether the module has room to keep the request. Without such room, Keep acts
// like Defer(0).
func (r *Request) MayKeep() bool { return r.id != 0 }

// Decide answers a request that Keep has kept. The argument now of Decide is the present time.
// Decide tells the peer to ask again, and the peer then gets the answer v without another call of
// the function given to Admit. A peer that Decide cannot reach asks every 15 s by itself. If the
// peer does not ask in this time, the decision lapses. If v is Keep, the request stays undecided
// and is kept for the new time. Decide returns ErrNoRequest if the request was not kept, was
// decided, has lapsed, or was replaced by later requests of its address. Decide returns ErrBadName
// for a MoveTo to a name of another provider, and ErrClosed after Close or Drain of the module. The
// caller owns the module.
func (r *Request) Decide(now Time, v Verdict) error {
	m := r.m
	if m == nil {
		return ErrNoRequest
	}
	m.all.At(now)
	if m.closed || m.all.Draining() {
		return ErrClosed
	}
	answer, err := v.answer(m.all.Port.WireName())
	if err != nil {
		return err
	}
	if !m.all.Handshakes.Decide(r.id, answer) {
		return ErrNoRequest
	}
	m.all.MarkDirty()
	return nil
}

// Admit sets the function fn that decides on incoming connections, except from peers to which this
// side connects. If fn is nil, which is the initial setting, every peer is accepted. When Admit
// calls fn, the peer has shown by its answers that it receives at both its addresses. The handshake
// may fail even after fn has accepted the peer. The function fn may do what a handler may do. Each
// repeated packet of a connecting peer, and a change of the peer's label, may cause another call of
// fn.
func (m *Module) Admit(fn func(Request) Verdict) { m.admission = fn }

// ask lets the function given to Admit decide on a connection request, for package peer.
func (m *Module) ask(hello *frag.Hello, id uint64) (answer meet.Answer) {
	if m.admission == nil {
		return answer
	}
	v := m.admission(Request{
		Address: m.all.Port.FormatName(hello.CommandName),
		Command: hello.CommandName, Data: hello.DataName,
		Label: hello.Label, Incarnation: hello.Incarnation, m: m, id: id,
	})
	if answer, err := v.answer(m.all.Port.WireName()); err == nil {
		return answer
	}
	return meet.Answer{Reject: frag.Reject{Reason: frag.RejectOwner}}
}

// PeerLabel is the label that the peer claims (Config.Label), or empty if the peer has not sent a
// label.
func (ep *Endpoint) PeerLabel() string { return ep.c.ID.Label }

// RemoteName is a readable name of the peer, with its quoted label, if any, and its address.
func (ep *Endpoint) RemoteName() string {
	if ep.c.ID.Label == "" {
		return ep.PeerAddress()
	}
	return strconv.Quote(ep.c.ID.Label) + " at " + ep.PeerAddress()
}
