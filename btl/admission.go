package btl

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/frag"
)

// Request describes a peer that wants to connect. The slices of a Request are valid only until the
// function given to Admit returns, but Decide can be called even after that function has returned.
type Request struct {
	Address     string // address of the peer's command channel, such as "192.0.2.1:4000"
	Command     []byte // the same address in the fabric's format
	Data        []byte // address of the peer's data channel
	Label       []byte // the peer's Config.Label; not authenticated
	Incarnation uint64 // incarnation of the peer's module

	m  *Module
	id uint64 // number of the request in package meet; 0: cannot be kept
}

// Is reports whether the argument "name", a result of Module.Name, is the name of the requesting
// peer. If "Is" returns true, the peer has proved to receive packets at the address in "name".
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

// Refuse is the Verdict that permanently rejects a peer. The endpoint of a refused peer fails with
// a RefusedError that contains the code given to Refuse.
func Refuse(code uint16) Verdict { return Verdict{reason: frag.RejectOwner, code: code} }

// Defer is the Verdict that rejects a connection request, but lets the peer repeat the request. A
// deferred peer repeats its request at least twice a second until its handshake times out. Each
// repeated connection request causes one more call of the function given to Admit.
func Defer(code uint16) Verdict { return Verdict{reason: frag.RejectLater, code: code} }

// KeepMax is the longest time for which Keep can store a connection request.
const KeepMax = meet.KeepMax

// Keep is the Verdict that stores a connection request until a call of Request.Decide, but at most
// for the duration "wait", which is limited to the range from 1 ms to KeepMax. The peer repeats a
// stored request at least every 15 s, and its HandshakeTimeout restarts at the end of "wait". If
// the application has not called Decide at the end of "wait", the module drops the stored request,
// and a repeated request of the peer becomes a new Request. A peer whose version does not support
// Keep repeats its request at least twice a second until its handshake times out, as after Defer.
// If the module has no room to store the request (Request.MayKeep), Keep acts like Defer(0).
func Keep(wait time.Duration) Verdict {
	wait = max(time.Millisecond, min(wait, KeepMax))
	return Verdict{reason: frag.RejectKept, code: uint16(wait / time.Millisecond)}
}

// MoveTo is the Verdict that redirects a peer to another module of this process. The argument
// "name" of MoveTo is the result of Module.Name of the target module, which must use the same
// provider and host address as this module. The peer's endpoint then connects to the target module,
// whose own Admit function decides on the request. A peer follows only the first MoveTo of a
// handshake. A peer whose version does not support MoveTo is refused with code 0. A MoveTo with a
// malformed name refuses the peer with code 0.
func MoveTo(name []byte) Verdict { return Verdict{moves: true, moved: string(name)} }

// The method "answer" converts a Verdict to an Answer of package meet. If the Verdict is a MoveTo
// with a malformed name, or with the name of a module that uses a different provider, the method
// "answer" returns ErrBadName.
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

// MayKeep reports whether the module has room to store the request. If MayKeep returns false, Keep
// acts like Defer(0).
func (r *Request) MayKeep() bool { return r.id != 0 }

// Undecided reports whether the module stores the request, and Decide can still decide on it.
func (r *Request) Undecided() bool { return r.m != nil && r.m.all.Handshakes.Undecided(r.id) }

// Decide answers a stored connection request (see Keep) with the Verdict v. The argument "now" of
// Decide is the present time. Decide sends the peer packets that ask it to repeat its request, and
// the repeated request gets the Verdict v without another call of the function given to Admit. Even
// if Decide's packets are lost, the peer repeats its request at least every 15 s. If v is a Keep,
// the request stays undecided for the duration of this Keep. Decide returns ErrNoRequest if the
// request was not stored, was already decided, has expired, or was replaced by newer requests from
// the same address. Decide returns ErrBadName for a MoveTo to another provider, and ErrClosed after
// Close or Drain. Only the goroutine that owns the module may call Decide.
func (r *Request) Decide(now Time, v Verdict) error {
	m := r.m
	if m == nil {
		return ErrNoRequest
	}
	m.all.At(now)
	if m.closed || m.all.Draining {
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

// Admit sets the function fn, which decides on each peer that asks to connect, but not on peers to
// which this side itself connects. If fn is nil, which is the initial setting, every peer is
// accepted. Before the module calls the function given to Admit, the peer has proved that it
// receives packets at the addresses of both its channels. The handshake can still fail after the
// function given to Admit has accepted the peer. The function given to Admit is allowed to call the
// same methods as a message handler. A repeated connection request, or a change of the peer's
// label, can cause one more call of the function given to Admit for the same peer.
func (m *Module) Admit(fn func(Request) Verdict) { m.admission = fn }

// The method "ask" returns the decision of the function given to Admit on a connection request.
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

// PeerLabel returns the label that the peer claims (Config.Label), or "" if there is no label.
func (ep *Endpoint) PeerLabel() string { return ep.c.ID.Label() }

// RemoteName returns the peer's address as text, after the quoted label if the peer has a label.
func (ep *Endpoint) RemoteName() string {
	if ep.c.ID.Label() == "" {
		return ep.PeerAddress()
	}
	return strconv.Quote(ep.c.ID.Label()) + " at " + ep.PeerAddress()
}
