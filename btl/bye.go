package btl

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/seq"
)

// The end of a connection, told by one side to the other. In order it is a Bye that is queued like
// a fragment, and counts when everything before it has arrived. At once it is a Bye with a code of
// one of those ends: a packet that nobody keeps, or sends again, for its sender has forgotten the
// connection. If it is lost the peer finds out by itself.

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

// whyEnded is what a caller is told of a Bye with a code.
func whyEnded(code uint16) error {
	switch {
	case code == frag.ByeClosed:
		return ErrPeerClosed
	case code >= frag.ByeOwner:
		return &EndedError{Code: code - frag.ByeOwner, Owner: true}
	}
	return &EndedError{Code: code}
}

// CloseWith is Close with a reason that the peer is told, 0 to CloseCodeMax: its event comes with
// an EndedError. What the numbers mean the two owners know. Errors: ErrConfig if it is larger.
func (ep *Endpoint) CloseWith(now Time, code uint16) error {
	if code > CloseCodeMax {
		return fmt.Errorf("%w: close code %d, at most %d", ErrConfig, code, CloseCodeMax)
	}
	ep.close(now, frag.ByeOwner+code)
	return nil
}

// newBye is the goodbye of an endpoint: a fragment that is nobody's.
func (ep *Endpoint) newBye(code uint16) *Fragment {
	bye := &Fragment{ep: ep, tag: frag.TagBye}
	bye.own = make([]byte, frag.ByeCodeBytes)
	bye.mem = bye.own[:frag.PutByeCode(bye.own, code)]
	bye.size = uint32(len(bye.mem))
	return bye
}

// endTelling is end, of which the peer is told if it is connected: once, with a code that ends the
// connection at once.
func (m *Module) endTelling(ep *Endpoint, code uint16, ev Event, err error) {
	if ep.err == nil && ep.mayBeConnectedThere() {
		m.sendLastWord(ep, code)
	}
	m.end(ep, ev, err)
}

// mayBeConnectedThere says whether the peer's end may be connected, and has proven to receive:
// while this side is connecting, too, if the peer has set out to connect as well, and was the first
// to get there. (One that is half open drops what it is told, but over a reliable fabric it would
// take that for the proof of a connection.)
func (ep *Endpoint) mayBeConnectedThere() bool {
	return ep.state == stateConnected ||
		ep.state == stateConnecting && ep.hs.ReachesPeer() && !ep.counted
}

// onLastWord ends an endpoint whose peer has forgotten it. False means that the packet is another
// one, or comes from nowhere near what the peer has sent.
func (m *Module) onLastWord(in *arrival) bool {
	ep := in.ep
	if in.Kind != frag.KindFrag || in.Tag != frag.TagBye || in.Flags&frag.FlagPut != 0 ||
		ep.state != stateConnected {
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

// mayBeNext says whether a number can be the one that the peer would have used next.
func (ep *Endpoint) mayBeNext(n seq.Num) bool {
	if ep.counted {
		return n == 0
	}
	ahead := n.Sub(ep.rcv.Next())
	return ahead >= 0 && uint32(ahead) <= ep.rcv.Size()
}
