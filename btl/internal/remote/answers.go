package remote

import "gobtl/internal/byhost"

// Peers that grant no credits, or acknowledge nothing, keep this side from sending the answers to
// their gets and atomic operations. Two limits bound the unsent answers: AsksMax for one peer, and
// answersMax for all peers together, which hosts share. A request beyond a limit is refused.

const (
	// answersMax is the number of unsent answers to all peers together at which the share of a host
	// decides about further answers. So many answers need about 15 MiB of memory.
	answersMax = 1 << 15
	// The unsent answers to a peer do not count towards answersMax while they are at most answersFree.
	answersFree = 16
)

// The type "answers" counts the unsent answers to one peer.
type answers struct {
	bound   *byhost.Bound // for all peers of the module
	host    string        // host of the peer
	holder  byhost.Holder
	entered bool // the holder belongs to the bound
	ended   bool // see Peer.Ended
}

// The method "full" reports whether the limits forbid one more unsent answer to the peer.
func (a *answers) full() bool {
	return a.holder.Held() >= AsksMax || !a.bound.MayAdd(&a.holder, 1)
}

// The method "add" adds to the number of unsent answers to the peer.
func (a *answers) add(count int64) {
	if !a.entered {
		a.entered = true
		a.bound.Enter(&a.holder, a.host)
	}
	a.bound.Add(&a.holder, count)
	if a.ended {
		a.leave()
	}
}

// The method "end" says that the peer has ended. Unsent answers to the peer count until they are
// dropped.
func (a *answers) end() {
	a.ended = true
	a.leave()
}

// The method "leave" removes a peer without unsent answers from the bound.
func (a *answers) leave() {
	if a.entered && a.holder.Held() == 0 {
		a.entered = false
		a.bound.Leave(&a.holder)
	}
}
