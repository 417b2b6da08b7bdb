package btl

import (
	"time"

	"gobtl/frag"
)

// The rules of the handshake: what happened goes in, what is to be done comes out. Nothing here
// looks at a module or changes anything; connect.go and handshake_apply.go do as they are told.
// Which end of a peer an endpoint deals with is most of it: peers may connect to each other at the
// same time, give up, connect again, and restart, while their Hellos overtake each other.
//
//	             Connect                 a peer's Hello
//	                |                          |
//	                v                          v
//	                |                   with cookies for both its addresses
//	                |                          v
//	           connecting                accepting (half open)
//	                |                          | validate
//	                v                          v
//	             both channels work, both ways, and the peer knows it
//	                |
//	                v
//	           connected ---> lingering (the peer said goodbye) ---> ended

// handshake is what an endpoint keeps while it is not connected.
type handshake struct {
	goal
	interval  time.Duration           // to the next round of Hellos: doubles
	began     Time                    // when it said its first Hello
	trip      time.Duration           // from then until the first Retry; 0 before
	offered   uint64                  // tag of the peer's end that was told this one's, 0 if none was
	offeredAt Time                    // when it was told first
	nonces    [frag.ProbeCount]uint64 // of the Hellos by each channel
	shown     [frag.ProbeCount]shown  // what the peer wants to see in the next ones
	proven    uint8                   // channels by which an answer came
	hurried   uint8                   // times that Hellos went out before their time
	later     *RefusedError           // the peer's owner has put it off
	askedAt   Time                    // when this side last asked out of its turn
	last      uint64                  // nonce of the first Hello that said that all is proven
	unheard   bool                    // the peer did not take what followed that one
	contested bool                    // another end of the peer than offered has proven itself
	bound     bool                    // the peer's tag and first sequence number are known
	ready     bool                    // the peer knows that both channels work
	confirmed bool                    // the peer is known to know it too
}

// goal is what the caller has asked for. It stays when a handshake begins again.
type goal struct {
	until    Time   // then it has failed; on the axis of clock.nowUnpaused
	expected uint64 // incarnation to reach, 0 for any
	wanted   bool   // this side has set out to reach the peer
	data     string // name of the peer's data endpoint, as the caller has given it
}

// shown is what a peer's Retry has given for one channel, and the address as which it sees this
// side there.
type shown struct {
	addr, value           [frag.AddrBytesMax]byte
	addrBytes, valueBytes uint8
}

// set takes over what a Retry says, and says whether it is news.
func (c *shown) set(r *frag.Retry) bool {
	old := *c
	*c = shown{}
	c.addrBytes = uint8(copy(c.addr[:], r.Addr))
	c.valueBytes = uint8(copy(c.value[:], r.Cookie))
	return *c != old
}

// retried takes what a Retry brings, and says whether it is news.
func (hs *handshake) retried(r *frag.Retry, now Time) bool {
	if hs.trip == 0 {
		hs.trip = now.Sub(hs.began)
	}
	return hs.shown[r.Probe].set(r)
}

// mayShow says whether there are cookies to show for all channels.
func (hs *handshake) mayShow() bool {
	for i := range hs.shown {
		if hs.shown[i].valueBytes == 0 {
			return false
		}
	}
	return true
}

// show puts the cookies into a Hello, with the addresses that they are for.
func (hs *handshake) show(hello *frag.Hello) {
	if !hs.mayShow() {
		return
	}
	cmd, data := &hs.shown[frag.ProbeCommand], &hs.shown[frag.ProbeData]
	hello.CommandName, hello.CommandCookie = cmd.addr[:cmd.addrBytes], cmd.value[:cmd.valueBytes]
	hello.DataName, hello.DataCookie = data.addr[:data.addrBytes], data.value[:data.valueBytes]
}

// repeatLast gives the Hello that says that all is proven a nonce of its own, or the next one if it
// is sent again: the answer tells which of them has come.
func (hs *handshake) repeatLast(nonce uint64, first bool) {
	hs.nonces[frag.ProbeCommand] = nonce
	if first {
		hs.last = nonce
	}
}

// answered learns from a HelloAck whether the peer took what was sent behind the first Hello that
// said that all is proven. It did not if it was not established then, or that Hello never came.
func (hs *handshake) answered(hello *frag.Hello) {
	if hello.Probe != frag.ProbeCommand || hs.last == 0 {
		return
	}
	first, again := hello.Nonce == hs.last, hello.Nonce == hs.nonces[frag.ProbeCommand]
	hs.unheard = hs.unheard || first && hello.Proven != frag.ProvenAll || again && !first
}

// answers says whether anything has come back by a channel.
func (hs *handshake) answers(p frag.Probe) bool {
	return hs.proven&p.Bit() != 0 || hs.shown[p].valueBytes > 0
}

// offer notes that an end of the peer is told this side's tag.
func (hs *handshake) offer(tag uint64, now Time) {
	if hs.offered != tag {
		hs.offered, hs.offeredAt = tag, now
	}
}

func (m *Module) newHandshake() *handshake {
	hs := &handshake{interval: helloIntervalMin, began: m.nowUnpaused}
	for i := range hs.nonces {
		hs.nonces[i] = m.random()
	}
	return hs
}

// helloFrom is what an endpoint knows when a Hello or HelloAck with its tag comes, from an end of
// the right life of the peer.
type helloFrom struct {
	state   endpointState
	settled bool // the handshake is over
	bound   bool // the endpoint deals with an end of the peer
	same    bool // it is that end
	free    bool // no other end of the peer was told the endpoint's tag
	stale   bool // the end that it deals with may be gone
	lower   bool // of the two modules this one's incarnation is not the higher one
}

// claim is what becomes of an end that proves to know an endpoint's tag.
type claim uint8

const (
	claimIgnored   claim = iota // it is another end's
	claimTaken                  // it is the end that the endpoint deals with
	claimBinds                  // from now on it is
	claimRestarts               // neither: the endpoint begins again under a new tag
	claimContested              // as before, but not both sides at once: this one waits for a while
)

// claim says whether the end that has sent a packet of a handshake with the endpoint's tag is the
// one that the endpoint deals with. An endpoint that deals with none yet takes it. It deals with
// one only: two that both think themselves connected to it would mix their packets.
func (f *helloFrom) claim() claim {
	switch {
	case f.same && (f.bound || f.settled):
		return claimTaken
	case f.settled || f.bound && f.state != stateConnecting:
		return claimIgnored
	case f.free: // the end that it was bound to was told no tag, and cannot be connected
		return claimBinds
	case f.bound && !f.stale:
		return claimIgnored
	case f.bound || f.lower:
		return claimRestarts
	}
	return claimContested
}

// proof is what is known when the peer of a half-open endpoint proves its address: the endpoint
// that the address led to before, if there is one and it is another.
type proof struct {
	known    bool // there is
	sameLife bool // of the peer
	state    endpointState
	newer    bool // it was made after the half-open one
	named    bool // the caller is connecting to it by name
	told     bool // an end of the peer was told its tag, or is the one that it deals with
}

// proofOutcome is what becomes of both.
type proofOutcome uint8

const (
	outcomeAlone      proofOutcome = iota // the half-open one goes on, and the address leads to it
	outcomeLate                           // what proves it is of a life that is over: it ends
	outcomeUndecided                      // both go on: the other may be of the later life
	outcomeRestarted                      // it goes on, the other ends: its life is over
	outcomeSupersedes                     // it goes on, the other is asked whether it is there still
	outcomeMerges                         // the other, that nobody knows of, takes its place
)

// outcome decides by the lives of the peer. Who is connected to a life that was found later knows
// better than a late proof. A caller that connects by name since the half-open one was made may
// know of the later life; who connects will tell. (A name that was known before the half-open one
// had its tag is of a life before the one that has returned the tag.)
func (p *proof) outcome() proofOutcome {
	connected, connecting := p.state == stateConnected, p.state == stateConnecting
	switch {
	case !p.known:
		return outcomeAlone
	case !p.sameLife && connected && p.newer:
		return outcomeLate
	case !p.sameLife && connecting && p.named && p.newer:
		return outcomeUndecided
	case !p.sameLife:
		return outcomeRestarted
	case connected:
		return outcomeSupersedes
	case connecting && !p.told:
		return outcomeMerges
	}
	return outcomeAlone
}
