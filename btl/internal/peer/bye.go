package peer

import (
	"gobtl/frag"
	"gobtl/internal/seq"
)

// newBye makes the Bye (last packet) of an endpoint. The Bye is a fragment that belongs to the
// transport and not to an application.
func (ep *Endpoint) newBye(code uint16) *Fragment {
	bye := new(Fragment)
	bye.Ep, bye.tag = ep, frag.TagBye
	bye.own = make([]byte, frag.ByeCodeBytes)
	bye.Data.Hold(bye.own[:frag.PutByeCode(bye.own, code)])
	bye.size = uint32(len(bye.Data.Bytes))
	return bye
}

// mayBeConnectedThere reports whether the peer has answered from its address and possibly regards
// the connection as established. After a simultaneous open, the peer can be connected while this
// side is still connecting.
func (ep *Endpoint) mayBeConnectedThere() bool {
	return ep.ID.State == StateConnected ||
		ep.ID.State == stateConnecting && ep.ID.Handshake.ReachesPeer() && !ep.ID.Counted
}

// abortSeq returns the sequence number of the Bye of an aborted connection. Over a reliable fabric,
// the Bye of an aborted connection has the number 0.
func (ep *Endpoint) abortSeq() seq.Num {
	if ep.ID.Counted {
		return 0
	}
	_, next := ep.Snd.Window()
	return next
}

// MayBeNext reports whether the peer's next sequence number can be n. The Bye of an aborted
// connection must have the peer's next sequence number.
func (ep *Endpoint) MayBeNext(n seq.Num) bool {
	if ep.ID.Counted {
		return n == 0
	}
	ahead := n.Sub(ep.Rcv.Next())
	return ahead >= 0 && uint32(ahead) <= ep.Rcv.Size()
}
