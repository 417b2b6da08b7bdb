package meet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gobtl/frag"
	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on a clock that does not advance while the process is
// suspended.
type Time = mono.Time

// The intervals and limits of a handshake.
const (
	// HelloIntervalMin and HelloIntervalMax limit the time between two rounds of Hellos.
	HelloIntervalMin = 20 * time.Millisecond
	HelloIntervalMax = 500 * time.Millisecond
	// hurriesMax is how often a handshake may send its Hellos before the timer expires.
	hurriesMax = 4
)

// Nonces holds the nonce of the Hellos of each channel.
type Nonces = [frag.ProbeCount]uint64

// Handshake is the state of a handshake in progress.
type Handshake struct {
	goal
	interval  time.Duration          // time until the next round of Hellos, which doubles
	began     Time                   // when the first Hello was sent
	trip      time.Duration          // time from the first Hello to the first Retry, or 0
	offered   uint64                 // tag of the peer's endpoint that knows this side's tag, or 0
	offeredAt Time                   // time at which it was first sent this side's tag
	nonces    Nonces                 // of the Hellos by each channel
	shown     [frag.ProbeCount]shown // values that the peer requires in the next Hellos
	askedAt   Time                   // time of the latest Hello before the timer expired
	last      uint64                 // nonce of the first Hello that says that both channels work
	later     uint16                 // code with which the peer's application has refused for now
	proven    uint8                  // channels through which an answer has arrived
	hurried   uint8                  // times that Hellos went out before their time
	putOff    bool                   // the peer's application has refused for now
	kept      bool                   // the peer's application keeps the request, so no Hello is sent
	unheard   bool                   // the peer dropped the packets behind the Hello with nonce last
	contested bool                   // another peer endpoint than offered has proven its address
	bound     bool                   // the peer's tag and first sequence number are known
	ready     bool                   // the peer knows that both channels work
	confirmed bool                   // this side knows that the peer knows this
}

// goal is the connection that the local application has asked for. A handshake that begins again
// keeps its goal.
type goal struct {
	until    Time   // then it has failed
	latest   Time   // latest value of until, which grows if the peer's application keeps the request
	moved    bool   // the peer's application has named another module
	expected uint64 // incarnation to reach, 0 for any
	wanted   bool   // the local application has called Connect or Dial for the peer
	data     string // name of the peer's data endpoint, as the caller has given it

	wokenAt Time          // when the latest wait for the peer's application ended, or 0
	wakeGap time.Duration // the shortest time between wokenAt and the end of the next wait
}

// shown holds the cookie of a Retry for one channel, and the address of this side as the peer sees
// it.
type shown struct {
	addr, value           [frag.AddrBytesMax]byte
	addrBytes, valueBytes uint8
}

// set stores the contents of a Retry, and reports whether the stored contents have changed.
func (c *shown) set(r *frag.Retry) bool {
	old := *c
	*c = shown{}
	c.addrBytes = uint8(copy(c.addr[:], r.Addr))
	c.valueBytes = uint8(copy(c.value[:], r.Cookie))
	return *c != old
}

// New begins a handshake. The nonces must be unpredictable.
func New(now Time, nonces Nonces) *Handshake {
	return &Handshake{interval: HelloIntervalMin, began: now, nonces: nonces}
}

// Again returns a new handshake with the same goal, which replaces the handshake hs.
func (hs *Handshake) Again(now Time, nonces Nonces) *Handshake {
	again := New(now, nonces)
	again.goal = hs.goal
	return again
}

// TakeGoal copies the goal of another handshake.
func (hs *Handshake) TakeGoal(of *Handshake) { hs.goal = of.goal }

// Want sets the goal of the handshake, which is a connection to an incarnation of the peer,
// where 0 means any, and data is the name of the peer's data endpoint. The handshake fails
// if the peer is not reached by the time until.
func (hs *Handshake) Want(incarnation uint64, data []byte, until Time) {
	hs.goal = goal{
		until: until, latest: until.Add(KeepMax), expected: incarnation, wanted: true,
		data: string(data),
	}
}

// Wanted reports whether the local application has called Connect or Dial for the peer.
func (hs *Handshake) Wanted() bool { return hs.wanted }

// Expected is the incarnation to reach, or 0 for any incarnation.
func (hs *Handshake) Expected() uint64 { return hs.expected }

// DataName is the name of the peer's data endpoint that the local application has given.
func (hs *Handshake) DataName() string { return hs.data }

// Offer records that this side sends its tag to the peer's endpoint with the given tag.
func (hs *Handshake) Offer(tag uint64, now Time) {
	if hs.offered != tag {
		hs.offered, hs.offeredAt = tag, now
	}
}

// OfferedBefore records that this side has sent its tag, in an earlier handshake, to the peer's
// endpoint with the given tag.
func (hs *Handshake) OfferedBefore(tag uint64) { hs.offered = tag }

// Offered is the tag of the peer's endpoint to which this side has sent its own tag. If there is no
// such endpoint, Offered is 0.
func (hs *Handshake) Offered() uint64 { return hs.offered }

// Bind records that the tag and the parameters of the peer's endpoint are known.
func (hs *Handshake) Bind() { hs.bound = true }

// BindAnew replaces the peer's endpoint by another endpoint of the peer, and records its tag and
// parameters. No answer of the new endpoint has arrived yet on any channel.
func (hs *Handshake) BindAnew() { hs.bound, hs.proven = true, 0 }

// Bound reports whether the tag and the parameters of the peer's endpoint are known.
func (hs *Handshake) Bound() bool { return hs.bound }

// ProveAll records that both channels work in both directions, because the peer has returned the
// cookies of both channels.
func (hs *Handshake) ProveAll() { hs.proven = frag.ProvenAll }

// Proven returns a set of bits, one for each channel through which an answer has arrived.
func (hs *Handshake) Proven() uint8 { return hs.proven }

// Nonce is the nonce of the Hellos of a channel.
func (hs *Handshake) Nonce(p frag.Probe) uint64 { return hs.nonces[p] }

// OnRetry stores the contents of a Retry. The result ok of OnRetry is false if the Retry answers no
// Hello of this handshake. The result hurry of OnRetry is true if the next Hello can contain more
// cookies than the previous one.
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

// OnReject reports whether a Reject ends the handshake, which requires the nonce of a Hello of
// this handshake. The argument quiet of OnReject is the time since the latest packet of the peer.
// If the tag of the peer is already known, OnReject returns true only if quiet is at least
// HelloIntervalMax.
func (hs *Handshake) OnReject(nonce uint64, quiet time.Duration) bool {
	return slices.Contains(hs.nonces[:], nonce) && (!hs.bound || quiet >= HelloIntervalMax)
}

// PutOff records the code with which the peer's application has asked this side to try later.
func (hs *Handshake) PutOff(code uint16) { hs.putOff, hs.later = true, code }

// Keep makes the handshake wait for a time without Hellos, because the peer's application keeps the
// request. After this time the handshake may take as long as timeout, but at most until KeepMax
// after its original end. Keep returns the time until the next Hello.
func (hs *Handshake) Keep(now Time, wait, timeout time.Duration) time.Duration {
	hs.PutOff(0)
	hs.kept, wait = true, max(wait, hs.WakeIn(now))
	hs.until = max(hs.until, now.Add(wait+timeout).Min(hs.latest))
	return max(min(wait, hs.Left(now)), 0)
}

// Kept reports whether the handshake waits because the peer's application keeps the request.
func (hs *Handshake) Kept() bool { return hs.kept }

// WakeIn returns the time until the peer may end the wait that Keep has begun. If the peer may end
// the wait now, the result of WakeIn is not positive. After each early end of a wait, the minimum
// length of the next wait doubles, so that a peer cannot cause many Hellos.
func (hs *Handshake) WakeIn(now Time) time.Duration {
	if hs.wokenAt == 0 {
		return 0
	}
	return hs.wokenAt.Add(hs.wakeGap).Sub(now)
}

// Wake ends the wait that Keep has begun. From now on, the handshake has the time timeout left.
func (hs *Handshake) Wake(now Time, timeout time.Duration) {
	hs.wokenAt, hs.wakeGap = now, min(max(2*hs.wakeGap, HelloIntervalMin), HelloIntervalMax)
	hs.kept, hs.interval = false, HelloIntervalMin
	hs.putOff = false // from now on, only a lost packet can delay the answer
	hs.until = now.Add(timeout).Min(hs.latest)
}

// Later returns the code of PutOff, if PutOff was called.
func (hs *Handshake) Later() (code uint16, ok bool) { return hs.later, hs.putOff }

// mayShow reports whether the peer has sent cookies for both channels, so that a Hello may
// contain them.
func (hs *Handshake) mayShow() bool {
	for i := range hs.shown {
		if hs.shown[i].valueBytes == 0 {
			return false
		}
	}
	return true
}

// Show copies the cookies into a Hello, with the addresses for which the peer made them.
func (hs *Handshake) Show(hello *frag.Hello) {
	if !hs.mayShow() {
		return
	}
	cmd, data := &hs.shown[frag.ProbeCommand], &hs.shown[frag.ProbeData]
	hello.CommandName, hello.CommandCookie = cmd.addr[:cmd.addrBytes], cmd.value[:cmd.valueBytes]
	hello.DataName, hello.DataCookie = data.addr[:data.addrBytes], data.value[:data.valueBytes]
}

// OnProvenHello handles a Hello that contains this side's tag.
func (hs *Handshake) OnProvenHello(hello *frag.Hello) {
	all := hello.Proven == frag.ProvenAll
	hs.confirmed = true
	hs.ready = hs.ready || all
	hs.unheard = hs.unheard || !all
}

// Answers reports whether a HelloAck answers a Hello of this handshake.
func (hs *Handshake) Answers(hello *frag.Hello) bool {
	return hello.Nonce == hs.nonces[hello.Probe]
}

// Prove records that a channel works in both directions.
func (hs *Handshake) Prove(p frag.Probe) { hs.proven |= p.Bit() }

// OnHelloAck processes a HelloAck. OnHelloAck also finds out whether the peer was not connected
// yet, and so dropped the packets that this side has sent after the first Hello that says that both
// channels work.
func (hs *Handshake) OnHelloAck(hello *frag.Hello) {
	if hello.Probe == frag.ProbeCommand && hs.last != 0 {
		first, again := hello.Nonce == hs.last, hello.Nonce == hs.nonces[frag.ProbeCommand]
		hs.unheard = hs.unheard || first && hello.Proven != frag.ProvenAll || again && !first
	}
	if hello.Proven == frag.ProvenAll {
		hs.confirmed, hs.ready = true, true
	}
}

// OnPacket records the arrival of a packet that only a connected peer sends, so the peer knows that
// both channels work. A data packet does not prove the addresses to which this side sends.
func (hs *Handshake) OnPacket() { hs.confirmed, hs.ready = true, true }

// Works reports whether both channels are known to work. The side that did not begin the handshake
// also waits until the peer knows that both channels work, because the peer's handshake may fail.
func (hs *Handshake) Works() bool { return hs.proven == frag.ProvenAll && (hs.wanted || hs.ready) }

// Confirmed reports whether a packet of the peer has shown that the peer knows that both channels
// work.
func (hs *Handshake) Confirmed() bool { return hs.confirmed }

// Unheard reports whether the peer dropped packets of this side because the peer was not connected
// yet. This side sends such packets after the first Hello that says that both channels work.
func (hs *Handshake) Unheard() bool { return hs.unheard }

// ReachesPeer reports whether the peer's endpoint has proven that it receives on the command
// channel.
func (hs *Handshake) ReachesPeer() bool {
	return hs.bound && hs.proven&frag.ProbeCommand.Bit() != 0
}

// BeginConfirm starts the rounds of Hellos that tell the peer that both channels work. The argument
// nonce of BeginConfirm is the nonce of the first Hello of the first round.
func (hs *Handshake) BeginConfirm(nonce uint64) {
	hs.interval = HelloIntervalMin
	hs.last, hs.nonces[frag.ProbeCommand] = nonce, nonce
}

// ConfirmAgain gives a new nonce to the next Hello that tells the peer that both channels work. The
// nonce of an answer shows which of the repeated Hellos has arrived.
func (hs *Handshake) ConfirmAgain(nonce uint64) { hs.nonces[frag.ProbeCommand] = nonce }

// HeardBy reports whether an answer has arrived through a channel.
func (hs *Handshake) HeardBy(p frag.Probe) bool {
	return hs.proven&p.Bit() != 0 || hs.shown[p].valueBytes > 0
}

// Asks reports whether a round of Hellos includes the given channel. A round of Hellos includes a
// channel if no answer has arrived through it, or if the Hello tells the peer that both channels
// work. While no endpoint of the peer is known, a channel with a cookie waits for the cookie of the
// other channel.
func (hs *Handshake) Asks(p frag.Probe) bool {
	if hs.proven == frag.ProvenAll {
		return p == frag.ProbeCommand
	}
	waits := !hs.bound && !hs.mayShow() && hs.shown[p].valueBytes > 0
	return hs.proven&p.Bit() == 0 && !waits
}

// MayAsk reports whether a half-open endpoint may probe its peer before the timer expires, and
// counts the probe.
func (hs *Handshake) MayAsk(now Time) bool {
	if hs.askedAt != 0 && now.Sub(hs.askedAt) < HelloIntervalMin {
		return false
	}
	hs.askedAt = now
	return true
}

// MayHurry reports whether the unanswered Hellos may be sent before the timer expires, and counts
// such Hellos. The number of early Hellos per handshake and per poll is limited.
func (hs *Handshake) MayHurry(now Time) bool {
	if hs.proven == frag.ProvenAll || hs.kept || hs.hurried >= hurriesMax || hs.askedAt == now {
		return false
	}
	hs.hurried++
	hs.askedAt = now
	return true
}

// Interval is the time until the next round of Hellos.
func (hs *Handshake) Interval() time.Duration { return hs.interval }

// NextRound begins a round of Hellos, and returns the time until the next round.
func (hs *Handshake) NextRound() time.Duration {
	d := hs.interval
	hs.interval = min(2*hs.interval, HelloIntervalMax)
	return d
}

// Left is the remaining time until the handshake fails. A negative result of Left means that the
// handshake has failed.
func (hs *Handshake) Left(now Time) time.Duration { return hs.until.Sub(now) }

// Contested reports whether Contest was called.
func (hs *Handshake) Contested() bool { return hs.contested }

// Contest records that an endpoint of the peer has proven that it receives at its address, although
// this side has sent its tag to a different endpoint of the peer. That endpoint has the time after
// (a round trip, plus the time longer) to prove its address. After that time, ContestLost returns
// true, and this side begins its handshake again under a new tag. The result waits of Contest is
// false if the time after has already passed.
func (hs *Handshake) Contest(now Time, longer time.Duration) (after time.Duration, waits bool) {
	after = max(hs.offeredAt.Add(hs.trip).Sub(now), 0) + longer
	if after == 0 {
		return 0, false
	}
	hs.contested = true
	return min(after, hs.Left(now)), true
}

// ContestLost reports whether, after a call of Contest, no endpoint of the peer has proven its
// address in time.
func (hs *Handshake) ContestLost() bool { return hs.contested && !hs.bound }

// MaybeStale reports whether the peer's endpoint may be gone or may have another tag, because the
// peer was silent for more than a round of Hellos.
func (hs *Handshake) MaybeStale(quiet time.Duration) bool {
	return hs.bound && hs.wanted && quiet > 2*HelloIntervalMin
}

// Told reports whether this side has sent its tag to an endpoint of the peer, or is bound to an
// endpoint of the peer.
func (hs *Handshake) Told() bool { return hs.bound || hs.offered != 0 }

// Check verifies that the fields of the handshake are consistent.
func (hs *Handshake) Check() error {
	switch {
	case hs.interval < HelloIntervalMin || hs.interval > HelloIntervalMax:
		return fmt.Errorf("rounds of Hellos every %v", hs.interval)
	case hs.proven&^frag.ProvenAll != 0 || hs.hurried > hurriesMax || hs.trip < 0:
		return fmt.Errorf("channels %#x proven, hurried %d times, a trip of %v", hs.proven, hs.hurried,
			hs.trip)
	case hs.offered == 0 && hs.offeredAt != 0:
		return fmt.Errorf("its tag was told at %d to nobody", hs.offeredAt)
	case hs.kept && (hs.bound || !hs.wanted):
		return errors.New("its request is kept, although a peer is known or nobody wants it")
	case !hs.wanted && (hs.until != 0 || hs.expected != 0 || hs.data != ""):
		return fmt.Errorf("not wanted, but until %d to reach %#x at %q", hs.until, hs.expected, hs.data)
	}
	return nil
}
