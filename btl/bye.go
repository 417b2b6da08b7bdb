package btl

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/seq"
)

// A Bye is the packet that tells the peer of the end of a connection. An orderly close queues a Bye
// like a fragment, and the Bye takes effect when all earlier packets have arrived. An abort sends
// one Bye with an abort code and never retransmits that Bye, because the sender has dropped the
// connection's state. If the Bye of an abort is lost, the peer's own timers detect the end.

// CloseCodeMax is the largest code that CloseWith accepts.
const CloseCodeMax = frag.ByeOwnerMax

// EndedError is an ErrPeerClosed with the reason that the peer has sent.
type EndedError struct {
	Code  uint16 // the code of the peer's CloseWith, or one of package frag
	Owner bool   // Code comes from CloseWith
}

func (e *EndedError) Error() string {
	code := e.Code
	if e.Owner {
		code += frag.ByeOwner
	}
	return fmt.Sprintf("%v: %s", ErrPeerClosed, frag.ByeWord(code))
}

// Is says that an EndedError is an ErrPeerClosed.
func (e *EndedError) Is(target error) bool { return target == ErrPeerClosed }

// whyEnded returns the error for the caller when a Bye with the code arrives.
func whyEnded(code uint16) error {
	switch {
	case code == frag.ByeClosed:
		return ErrPeerClosed
	case code >= frag.ByeOwner:
		return &EndedError{Code: code - frag.ByeOwner, Owner: true}
	}
	return &EndedError{Code: code}
}

// CloseWith is Close with a code for the peer, 0 to CloseCodeMax. The peer's event has an
// EndedError with the code. The applications of the two sides define the meaning of the codes.
// CloseWith returns ErrConfig if the code is larger.
func (ep *Endpoint) CloseWith(now Time, code uint16) error {
	if code > CloseCodeMax {
		return fmt.Errorf("%w: close code %d, at most %d", ErrConfig, code, CloseCodeMax)
	}
	ep.close(now, frag.ByeOwner+code)
	return nil
}

// newBye makes the Bye of an endpoint, as a fragment that belongs to the transport and not to a
// caller.
func (ep *Endpoint) newBye(code uint16) *Fragment {
	bye := &Fragment{ep: ep, tag: frag.TagBye}
	bye.own = make([]byte, frag.ByeCodeBytes)
	bye.mem = bye.own[:frag.PutByeCode(bye.own, code)]
	bye.size = uint32(len(bye.mem))
	return bye
}

// endTelling is end, and also sends one Bye with an abort code if the peer may be connected.
func (m *Module) endTelling(ep *Endpoint, code uint16, ev Event, err error) {
	if ep.err == nil && ep.mayBeConnectedThere() {
		m.sendLastWord(ep, code)
	}
	m.end(ep, ev, err)
}

// mayBeConnectedThere says whether the peer's endpoint may be connected, and has proven to receive
// at its address. The peer may be connected while this side is still connecting, after a
// simultaneous open.
func (ep *Endpoint) mayBeConnectedThere() bool {
	return ep.id.State() == stateConnected ||
		ep.id.State() == stateConnecting && ep.id.Handshake().ReachesPeer() && !ep.id.Counted
}

// onLastWord ends an endpoint when the Bye of an abort arrives from the peer. onLastWord returns
// false if the packet is no abort, or if its sequence number is outside the receive window.
func (m *Module) onLastWord(in *arrival) bool {
	ep := in.ep
	if in.Kind != frag.KindFrag || in.Tag != frag.TagBye || in.Flags&frag.FlagPut != 0 ||
		ep.id.State() != stateConnected {
		return false
	}
	code := frag.ByeCode(in.payload)
	if !frag.ByeEndsAtOnce(code) || !ep.mayBeNext(in.Seq) {
		return false
	}
	m.stats.counters[CntRecvFrag]++
	ev, err := EventFailed, whyEnded(code)
	if ep.closing { // this side was closing as well
		ev, err = EventClosed, ErrClosed
	}
	m.end(ep, ev, err)
	return true
}

// mayBeNext says whether n can be the peer's next sequence number, which an abort carries.
func (ep *Endpoint) mayBeNext(n seq.Num) bool {
	if ep.id.Counted {
		return n == 0
	}
	ahead := n.Sub(ep.rcv.Next())
	return ahead >= 0 && uint32(ahead) <= ep.rcv.Size()
}
