package btl

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/seq"
)

// A Bye is the packet that tells the peer that the connection ends. After a Close, the Bye is
// queued like a fragment, and has an effect when all earlier packets have arrived. After an Abort,
// one Bye with an abort code is sent and never retransmitted, because the sender has dropped the
// connection's state. If the Bye of an Abort is lost, the peer's own timers detect the end of the
// connection.

// CloseCodeMax is the largest code that CloseWith accepts.
const CloseCodeMax = frag.ByeOwnerMax

// EndedError is an ErrPeerClosed with the reason that the peer has sent.
type EndedError struct {
	Code  uint16 // the code of the peer's CloseWith, or one of package frag
	Owner bool   // Code was given to CloseWith
}

func (e *EndedError) Error() string {
	code := e.Code
	if e.Owner {
		code += frag.ByeOwner
	}
	return fmt.Sprintf("%v: %s", ErrPeerClosed, frag.ByeWord(code))
}

// Is makes errors.Is(err, ErrPeerClosed) true for an EndedError.
func (e *EndedError) Is(target error) bool { return target == ErrPeerClosed }

// whyEnded returns the error of an endpoint after a Bye with the given code.
func whyEnded(code uint16) error {
	switch {
	case code == frag.ByeClosed:
		return ErrPeerClosed
	case code >= frag.ByeOwner:
		return &EndedError{Code: code - frag.ByeOwner, Owner: true}
	}
	return &EndedError{Code: code}
}

// CloseWith closes the endpoint like Close, and sends the peer a code from 0 to
// CloseCodeMax. After an Abort with a code, the event of the peer's endpoint has an
// EndedError with this code. The applications define the meaning of the codes. CloseWith
// returns ErrConfig if the code is larger.
func (ep *Endpoint) CloseWith(now Time, code uint16) error {
	if code > CloseCodeMax {
		return fmt.Errorf("%w: close code %d, at most %d", ErrConfig, code, CloseCodeMax)
	}
	ep.close(now, frag.ByeOwner+code)
	return nil
}

// newBye makes the Bye of an endpoint, as a fragment that belongs to the transport and not to an
// application.
func (ep *Endpoint) newBye(code uint16) *Fragment {
	bye := &Fragment{ep: ep, tag: frag.TagBye}
	bye.own = make([]byte, frag.ByeCodeBytes)
	bye.data.Bytes = bye.own[:frag.PutByeCode(bye.own, code)]
	bye.size = uint32(len(bye.data.Bytes))
	return bye
}

// mayBeConnectedThere reports whether the peer's endpoint may be connected, and has proven that it
// receives at its address. After a simultaneous open, the peer may be connected while this side is
// still connecting.
func (ep *Endpoint) mayBeConnectedThere() bool {
	return ep.id.State() == stateConnected ||
		ep.id.State() == stateConnecting && ep.id.Handshake().ReachesPeer() && !ep.id.Counted
}

// onLastWord ends an endpoint when the Bye of an abort arrives from the peer. onLastWord returns
// false if the packet is not the Bye of an abort, or if its sequence number is outside the receive
// window.
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

// mayBeNext reports whether n can be the peer's next sequence number, which is the sequence
// number of an abort's Bye.
func (ep *Endpoint) mayBeNext(n seq.Num) bool {
	if ep.id.Counted {
		return n == 0
	}
	ahead := n.Sub(ep.rcv.Next())
	return ahead >= 0 && uint32(ahead) <= ep.rcv.Size()
}
