package btl

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/seq"
)

// How one side tells the other that a connection ends. An orderly close queues a Bye like a
// fragment; the Bye takes effect when everything before it has arrived. An abort sends a Bye with
// an abort code once: it is never retransmitted, for its sender has dropped the connection's state.
// If that Bye is lost, the peer's own timers detect the end.

// CloseCodeMax is the largest code of CloseWith.
const CloseCodeMax = frag.ByeOwnerMax

// EndedError is the ErrPeerClosed of a peer that has said why.
type EndedError struct {
	Code  uint16 // what the peer's owner says (CloseWith), else one of the codes of frag
	Owner bool   // it is the owner's
}

func (e *EndedError) Error() string {
	code := e.Code
	if e.Owner {
		code += frag.ByeOwner
	}
	return fmt.Sprintf("%v: %s", ErrPeerClosed, frag.ByeWord(code))
}

// Is makes it an ErrPeerClosed.
func (e *EndedError) Is(target error) bool { return target == ErrPeerClosed }

// whyEnded is the error that a caller gets for a Bye with a code.
func whyEnded(code uint16) error {
	switch {
	case code == frag.ByeClosed:
		return ErrPeerClosed
	case code >= frag.ByeOwner:
		return &EndedError{Code: code - frag.ByeOwner, Owner: true}
	}
	return &EndedError{Code: code}
}

// CloseWith is Close with a reason that the peer is told, 0 to CloseCodeMax: the peer's event
// carries an EndedError. The meaning of the codes is up to the two owners. Errors: ErrConfig if the
// code is larger.
func (ep *Endpoint) CloseWith(now Time, code uint16) error {
	if code > CloseCodeMax {
		return fmt.Errorf("%w: close code %d, at most %d", ErrConfig, code, CloseCodeMax)
	}
	ep.close(now, frag.ByeOwner+code)
	return nil
}

// newBye makes the Bye of an endpoint: a fragment that no caller owns.
func (ep *Endpoint) newBye(code uint16) *Fragment {
	bye := &Fragment{ep: ep, tag: frag.TagBye}
	bye.own = make([]byte, frag.ByeCodeBytes)
	bye.mem = bye.own[:frag.PutByeCode(bye.own, code)]
	bye.size = uint32(len(bye.mem))
	return bye
}

// endTelling is end, plus a single Bye with an abort code to the peer if it is connected.
func (m *Module) endTelling(ep *Endpoint, code uint16, ev Event, err error) {
	if ep.err == nil && ep.mayBeConnectedThere() {
		m.sendLastWord(ep, code)
	}
	m.end(ep, ev, err)
}

// mayBeConnectedThere says whether the peer's end may be connected, and has proven to receive. It
// may be so while this side is still connecting, in a simultaneous open in which the peer was
// faster. (A half-open peer drops a Bye, but over a reliable fabric it would take the Bye for proof
// of a connection.)
func (ep *Endpoint) mayBeConnectedThere() bool {
	return ep.id.State() == stateConnected ||
		ep.id.State() == stateConnecting && ep.id.Handshake().ReachesPeer() && !ep.id.Counted
}

// onLastWord ends an endpoint whose peer has aborted the connection. False means that the packet is
// no abort, or that its number is far from those that the peer has sent.
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
	if ep.closing { // what waits for the end of the other side is over as well
		ev, err = EventClosed, ErrClosed
	}
	m.end(ep, ev, err)
	return true
}

// mayBeNext says whether n can be the peer's next sequence number.
func (ep *Endpoint) mayBeNext(n seq.Num) bool {
	if ep.id.Counted {
		return n == 0
	}
	ahead := n.Sub(ep.rcv.Next())
	return ahead >= 0 && uint32(ahead) <= ep.rcv.Size()
}
