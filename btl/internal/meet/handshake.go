package meet

import (
	"fmt"
	"slices"
	"time"

	"gobtl/frag"
	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on the owner's axis without pauses.
type Time = mono.Time

// The times and numbers of a handshake.
const (
	// HelloIntervalMin and HelloIntervalMax bound the time between two rounds of Hellos.
	HelloIntervalMin = 20 * time.Millisecond
	HelloIntervalMax = 500 * time.Millisecond
	// hurriesMax is how often the Hellos of a handshake go out before their time.
	hurriesMax = 4
)

// Nonces has the nonce of the Hello by each channel.
type Nonces = [frag.ProbeCount]uint64

// Handshake is the state of a handshake in progress.
type Handshake struct {
	goal
	interval  time.Duration          // to the next round of Hellos: doubles
	began     Time                   // when it said its first Hello
	trip      time.Duration          // from then until the first Retry; 0 before
	offered   uint64                 // tag of the peer's end that was told this one's, 0 if none was
	offeredAt Time                   // when it was told first
	nonces    Nonces                 // of the Hellos by each channel
	shown     [frag.ProbeCount]shown // what the peer wants to see in the next ones
	askedAt   Time                   // when this side last asked out of its turn
	last      uint64                 // nonce of the first Hello that said that all is proven
	later     uint16                 // code with which the peer's owner has put it off
	proven    uint8                  // channels by which an answer came
	hurried   uint8                  // times that Hellos went out before their time
	putOff    bool                   // the peer's owner has put it off
	unheard   bool                   // the peer did not take what followed the Hello of last
	contested bool                   // another end of the peer than offered has proven itself
	bound     bool                   // the peer's tag and first sequence number are known
	ready     bool                   // the peer knows that both channels work
	confirmed bool                   // the peer is known to know it too
}

// goal is the caller's request. It stays when a handshake begins again.
type goal struct {
	until    Time   // then it has failed
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

// New begins a handshake, with nonces that nobody can guess.
func New(now Time, nonces Nonces) *Handshake {
	return &Handshake{interval: HelloIntervalMin, began: now, nonces: nonces}
}

// Again is a handshake with the goal of one that is given up.
func (hs *Handshake) Again(now Time, nonces Nonces) *Handshake {
	again := New(now, nonces)
	again.goal = hs.goal
	return again
}

// TakeGoal has the handshake serve the goal of another one.
func (hs *Handshake) TakeGoal(of *Handshake) { hs.goal = of.goal }

// Want has this side set out to reach an incarnation, 0 for any, whose data endpoint has a name; if
// it is not reached at an instant the handshake has failed.
func (hs *Handshake) Want(incarnation uint64, data []byte, until Time) {
	hs.goal = goal{until: until, expected: incarnation, wanted: true, data: string(data)}
}

// Wanted says whether this side has set out to reach the peer.
func (hs *Handshake) Wanted() bool { return hs.wanted }

// Expected is the incarnation to reach, 0 for any.
func (hs *Handshake) Expected() uint64 { return hs.expected }

// DataName is the name of the peer's data endpoint, as the caller has given it.
func (hs *Handshake) DataName() string { return hs.data }

// Offer notes that an end of the peer is told this side's tag.
func (hs *Handshake) Offer(tag uint64, now Time) {
	if hs.offered != tag {
		hs.offered, hs.offeredAt = tag, now
	}
}

// OfferedBefore notes that an end of the peer was told this side's tag by an earlier handshake.
func (hs *Handshake) OfferedBefore(tag uint64) { hs.offered = tag }

// Offered is the tag of the peer's end that was told this side's tag, 0 if none was.
func (hs *Handshake) Offered() uint64 { return hs.offered }

// Bind notes that the peer's end is known by what it says of itself.
func (hs *Handshake) Bind() { hs.bound = true }

// BindAnew is Bind to an end by which nothing is proven yet.
func (hs *Handshake) BindAnew() { hs.bound, hs.proven = true, 0 }

// Bound says whether the peer's end is known.
func (hs *Handshake) Bound() bool { return hs.bound }

// ProveAll notes that all channels are proven: cookies went by both and came back.
func (hs *Handshake) ProveAll() { hs.proven = frag.ProvenAll }

// Proven are the channels by which an answer came.
func (hs *Handshake) Proven() uint8 { return hs.proven }

// Nonce is that of the Hellos by a channel.
func (hs *Handshake) Nonce(p frag.Probe) uint64 { return hs.nonces[p] }

// OnRetry takes what a Retry brings. Ok is false if that answers no Hello of this handshake, and
// hurry says whether the next Hellos can show more than those before.
func (hs *Handshake) OnRetry(r *frag.Retry, now Time) (ok, hurry bool) {
	if r.Nonce != hs.nonces[r.Probe] {
		return false, false
	}
	if hs.trip == 0 {
		hs.trip = now.Sub(hs.began)
	}
	news := hs.shown[r.Probe].set(r)
	return true, news && hs.mayShow() && !hs.bound
}

// OnReject says whether a Reject with a nonce answers a Hello of this handshake. Quiet is for how
// long nothing of the peer has come: a peer that has answered one Hello does not refuse the next,
// unless it died meanwhile.
func (hs *Handshake) OnReject(nonce uint64, quiet time.Duration) bool {
	return slices.Contains(hs.nonces[:], nonce) && (!hs.bound || quiet >= HelloIntervalMax)
}

// PutOff notes the code with which the peer's owner has put this side off.
func (hs *Handshake) PutOff(code uint16) { hs.putOff, hs.later = true, code }

// Later is the code with which the peer's owner has put this side off, if it has.
func (hs *Handshake) Later() (code uint16, ok bool) { return hs.later, hs.putOff }

// mayShow says whether there are cookies to show for all channels.
func (hs *Handshake) mayShow() bool {
	for i := range hs.shown {
		if hs.shown[i].valueBytes == 0 {
			return false
		}
	}
	return true
}

// Show puts the cookies into a Hello, with the addresses that they are for.
func (hs *Handshake) Show(hello *frag.Hello) {
	if !hs.mayShow() {
		return
	}
	cmd, data := &hs.shown[frag.ProbeCommand], &hs.shown[frag.ProbeData]
	hello.CommandName, hello.CommandCookie = cmd.addr[:cmd.addrBytes], cmd.value[:cmd.valueBytes]
	hello.DataName, hello.DataCookie = data.addr[:data.addrBytes], data.value[:data.valueBytes]
}

// OnProvenHello takes what the Hello of a peer says that knows this side's tag.
func (hs *Handshake) OnProvenHello(hello *frag.Hello) {
	all := hello.Proven == frag.ProvenAll
	hs.confirmed = true
	hs.ready = hs.ready || all
	hs.unheard = hs.unheard || !all
}

// Answers says whether a HelloAck answers a Hello of this handshake.
func (hs *Handshake) Answers(hello *frag.Hello) bool {
	return hello.Nonce == hs.nonces[hello.Probe]
}

// Prove notes that a channel works both ways.
func (hs *Handshake) Prove(p frag.Probe) { hs.proven |= p.Bit() }

// OnHelloAck takes what a HelloAck says. It tells whether the peer took what was sent behind the
// first Hello that said that all is proven: it did not if it was not established then, or if that
// Hello never came.
func (hs *Handshake) OnHelloAck(hello *frag.Hello) {
	if hello.Probe == frag.ProbeCommand && hs.last != 0 {
		first, again := hello.Nonce == hs.last, hello.Nonce == hs.nonces[frag.ProbeCommand]
		hs.unheard = hs.unheard || first && hello.Proven != frag.ProvenAll || again && !first
	}
	if hello.Proven == frag.ProvenAll {
		hs.confirmed, hs.ready = true, true
	}
}

// OnPacket takes what a packet says that only a connected peer sends: it knows that both channels
// work. That says nothing of the addresses to which this side sends.
func (hs *Handshake) OnPacket() { hs.confirmed, hs.ready = true, true }

// Works says whether both channels are known to work. A side that was called waits until the peer
// knows that too, for the peer may not get that far.
func (hs *Handshake) Works() bool { return hs.proven == frag.ProvenAll && (hs.wanted || hs.ready) }

// Confirmed says whether the peer is known to know that both channels work.
func (hs *Handshake) Confirmed() bool { return hs.confirmed }

// Unheard says whether the peer did not take what followed the first Hello that said that all is
// proven.
func (hs *Handshake) Unheard() bool { return hs.unheard }

// ReachesPeer says whether the peer's end has proven to receive by the command channel.
func (hs *Handshake) ReachesPeer() bool {
	return hs.bound && hs.proven&frag.ProbeCommand.Bit() != 0
}

// BeginConfirm begins the rounds of Hellos that say that all is proven, with the nonce of the first
// one.
func (hs *Handshake) BeginConfirm(nonce uint64) {
	hs.interval = HelloIntervalMin
	hs.last, hs.nonces[frag.ProbeCommand] = nonce, nonce
}

// ConfirmAgain gives the next Hello that says that all is proven a nonce of its own: the answer
// tells which of them has come.
func (hs *Handshake) ConfirmAgain(nonce uint64) { hs.nonces[frag.ProbeCommand] = nonce }

// HeardBy says whether anything has come back by a channel.
func (hs *Handshake) HeardBy(p frag.Probe) bool {
	return hs.proven&p.Bit() != 0 || hs.shown[p].valueBytes > 0
}

// Asks says whether a round of Hellos has one by a channel: no answer has come from there yet, or
// it is the one to be confirmed. While no end of the peer is known, a Hello is of no use that lacks
// a cookie which is there for the other channel.
func (hs *Handshake) Asks(p frag.Probe) bool {
	if hs.proven == frag.ProvenAll {
		return p == frag.ProbeCommand
	}
	waits := !hs.bound && !hs.mayShow() && hs.shown[p].valueBytes > 0
	return hs.proven&p.Bit() == 0 && !waits
}

// MayAsk says whether a half-open end may ask its peer out of its turn now, and counts that.
func (hs *Handshake) MayAsk(now Time) bool {
	if hs.askedAt != 0 && now.Sub(hs.askedAt) < HelloIntervalMin {
		return false
	}
	hs.askedAt = now
	return true
}

// MayHurry says whether the Hellos that lack an answer may go out before their time, and counts
// that: the peer is there, and waits for what only they bring. They may a few times, and once in a
// pass. A peer that is never content is asked no more often than one that is silent.
func (hs *Handshake) MayHurry(now Time) bool {
	if hs.proven == frag.ProvenAll || hs.hurried >= hurriesMax || hs.askedAt == now {
		return false
	}
	hs.hurried++
	hs.askedAt = now
	return true
}

// Interval is the time until the next round of Hellos.
func (hs *Handshake) Interval() time.Duration { return hs.interval }

// NextRound begins a round of Hellos, and returns the time until the one after it.
func (hs *Handshake) NextRound() time.Duration {
	d := hs.interval
	hs.interval = min(2*hs.interval, HelloIntervalMax)
	return d
}

// Left is the time until the handshake has failed, which may be over.
func (hs *Handshake) Left(now Time) time.Duration { return hs.until.Sub(now) }

// Contested says whether Contest was called.
func (hs *Handshake) Contested() bool { return hs.contested }

// Contest notes that an end of the peer has proven itself, but another end of it was told this
// side's tag and may use it. The end that was told the tag has the time after to prove itself too:
// a round trip since it was told, and the time longer. If it does not, this side begins its
// handshake again under a new tag (ContestLost). Waits is false if that time is over already.
func (hs *Handshake) Contest(now Time, longer time.Duration) (after time.Duration, waits bool) {
	after = max(hs.offeredAt.Add(hs.trip).Sub(now), 0) + longer
	if after == 0 {
		return 0, false
	}
	hs.contested = true
	return min(after, hs.Left(now)), true
}

// ContestLost says whether no end of the peer has proven itself in the time of a contest.
func (hs *Handshake) ContestLost() bool { return hs.contested && !hs.bound }

// MaybeStale says whether the peer's endpoint, to which a connecting endpoint is bound, may be gone
// or restarted under another tag: it was silent for more than a round of Hellos.
func (hs *Handshake) MaybeStale(quiet time.Duration) bool {
	return hs.bound && hs.wanted && quiet > 2*HelloIntervalMin
}

// Told says whether an end of the peer was told this side's tag, or is the one that this side deals
// with.
func (hs *Handshake) Told() bool { return hs.bound || hs.offered != 0 }

// Check proves that what is known fits together.
func (hs *Handshake) Check() error {
	switch {
	case hs.interval < HelloIntervalMin || hs.interval > HelloIntervalMax:
		return fmt.Errorf("rounds of Hellos every %v", hs.interval)
	case hs.proven&^frag.ProvenAll != 0 || hs.hurried > hurriesMax || hs.trip < 0:
		return fmt.Errorf("channels %#x proven, hurried %d times, a trip of %v", hs.proven, hs.hurried,
			hs.trip)
	case hs.offered == 0 && hs.offeredAt != 0:
		return fmt.Errorf("its tag was told at %d to nobody", hs.offeredAt)
	case !hs.wanted && (hs.until != 0 || hs.expected != 0 || hs.data != ""):
		return fmt.Errorf("not wanted, but until %d to reach %#x at %q", hs.until, hs.expected, hs.data)
	}
	return nil
}
