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
	// HelloIntervalMin and HelloIntervalMax are the minimum and the maximum time between two rounds of
	// Hellos.
	HelloIntervalMin = 20 * time.Millisecond
	HelloIntervalMax = 500 * time.Millisecond
	// hurriesMax is the maximum number of times that a handshake repeats its Hellos early, before
	// their timer expires.
	hurriesMax = 4
)

// Nonces contains, for each channel, the nonce of the Hellos on this channel.
type Nonces = [frag.ProbeCount]uint64

// Handshake is the state of a handshake in progress.
type Handshake struct {
	goal
	Interval  time.Duration          // time until the next round of Hellos; each round doubles it
	began     Time                   // when the first Hello was sent
	trip      time.Duration          // time from the first Hello to the first Retry, or 0
	Offered   uint64                 // tag of the peer's endpoint that has got this side's tag, or 0
	offeredAt Time                   // time at which this side's tag was first sent to Offered
	Nonces    Nonces                 // of the Hellos on each channel
	shown     [frag.ProbeCount]shown // cookies that the peer requires in the next Hellos
	askedAt   Time                   // time of the latest Hello that was sent before the timer expired
	last      uint64                 // nonce of the first Hello that says that both channels work
	later     uint16                 // code of the peer's application, which asks to try later
	Proven    uint8                  // channels through which an answer has arrived
	hurried   uint8                  // how often Hellos were sent before the timer expired
	putOff    bool                   // the peer's application has asked this side to try later
	Kept      bool                   // the peer's application delays its decision, so no Hello is sent
	unheard   bool                   // the peer dropped packets sent after the Hello with nonce last
	contested bool                   // an endpoint other than Offered has returned this side's tag
	Bound     bool                   // the peer's tag and first sequence number are known
	ready     bool                   // the peer knows that both channels work
	confirmed bool                   // this side need not report again that both channels work
}

// The type "goal" is the connection that the local application has asked for. If a handshake begins
// again, its goal stays the same.
type goal struct {
	until    Time   // time at which the handshake fails
	latest   Time   // maximum of until, which grows while the peer's application delays a decision
	moved    bool   // the peer's application has named another module
	expected uint64 // incarnation to reach, 0 for any
	wanted   bool   // the local application has called Connect or Dial for the peer
	DataName string // name of the peer's data endpoint, as the caller has given it

	wokenAt Time          // when the latest wait for the peer's application ended, or 0
	wakeGap time.Duration // the shortest time between wokenAt and the end of the next wait
}

// The type "shown" contains the cookie of a Retry for one channel, and this side's address as seen
// by the peer.
type shown struct {
	addr, value           [frag.AddrBytesMax]byte
	addrBytes, valueBytes uint8
}

// set stores the contents of a Retry, and reports whether these contents differ from those of the
// previous Retry.
func (c *shown) set(r *frag.Retry) bool {
	old := *c
	*c = shown{}
	c.addrBytes = uint8(copy(c.addr[:], r.Addr))
	c.valueBytes = uint8(copy(c.value[:], r.Cookie))
	return *c != old
}

// New begins a handshake. The nonces must be unpredictable.
func New(now Time, nonces Nonces) *Handshake {
	return &Handshake{Interval: HelloIntervalMin, began: now, Nonces: nonces}
}

// Again returns a new handshake with the same goal as the handshake hs.
func (hs *Handshake) Again(now Time, nonces Nonces) *Handshake {
	again := New(now, nonces)
	again.goal = hs.goal
	return again
}

// Want sets the goal of the handshake, which is a connection to the given incarnation of the peer.
// An incarnation of 0 means any incarnation. The argument "data" of Want is the address of the
// peer's data channel. The argument "until" of Want is the time at which the handshake fails if the
// peer was not reached.
func (hs *Handshake) Want(incarnation uint64, data []byte, until Time) {
	hs.goal = goal{
		until: until, latest: until.Add(KeepMax), expected: incarnation, wanted: true,
		DataName: string(data),
	}
}

// Offer records that this side sends the connection tag of its endpoint to the peer's endpoint with
// the given tag.
func (hs *Handshake) Offer(tag uint64, now Time) {
	if hs.Offered != tag {
		hs.Offered, hs.offeredAt = tag, now
	}
}

// OnRetry stores the contents of a Retry. The result "ok" of OnRetry says whether the Retry answers
// a Hello of this handshake. The result "hurry" of OnRetry says whether the next Hello should be
// sent immediately, because it can contain new cookies.
func (hs *Handshake) OnRetry(r *frag.Retry, now Time) (ok, hurry bool) {
	if r.Nonce != hs.Nonces[r.Probe] {
		return false, false
	}
	if hs.trip == 0 {
		hs.trip = now.Sub(hs.began)
	}
	news := hs.shown[r.Probe].set(r)
	return true, news && hs.mayShow() && !hs.Bound
}

// OnReject reports whether this side accepts a Reject. A Reject is accepted only if it contains the
// nonce of a Hello of this handshake. If the peer's connection tag is already known, a Reject is
// accepted only if no packet of the peer has arrived for HelloIntervalMax. The argument "quiet" of
// OnReject is the time since the latest packet of the peer.
func (hs *Handshake) OnReject(nonce uint64, quiet time.Duration) bool {
	return slices.Contains(hs.Nonces[:], nonce) && (!hs.Bound || quiet >= HelloIntervalMax)
}

// PutOff records the code with which the peer's application has asked this side to try later.
func (hs *Handshake) PutOff(code uint16) { hs.putOff, hs.later = true, code }

// Keep makes the handshake wait for a time without Hellos, because the peer's application has not
// decided on the request yet. An incomplete handshake fails when the time "timeout" has passed
// after the end of the wait, and at the latest KeepMax after the handshake's original time limit.
// Keep returns the time until the next Hello.
func (hs *Handshake) Keep(now Time, wait, timeout time.Duration) time.Duration {
	hs.PutOff(0)
	hs.Kept, wait = true, max(wait, hs.WakeIn(now))
	hs.until = max(hs.until, now.Add(wait+timeout).Min(hs.latest))
	return max(min(wait, hs.Left(now)), 0)
}

// WakeIn returns the time until a packet from the peer may end the wait between two Hellos that
// Keep has begun. If a packet from the peer may already end this wait, the result of WakeIn is zero
// or negative. Each time that a packet from the peer ends a wait between two Hellos, the minimum
// length of the next wait is doubled, so that the peer cannot cause many Hellos.
func (hs *Handshake) WakeIn(now Time) time.Duration {
	if hs.wokenAt == 0 {
		return 0
	}
	return hs.wokenAt.Add(hs.wakeGap).Sub(now)
}

// Wake ends the wait that Keep has begun. An incomplete handshake fails when the time "timeout" has
// passed after the call of Wake, and at the latest KeepMax after the handshake's original time
// limit.
func (hs *Handshake) Wake(now Time, timeout time.Duration) {
	hs.wokenAt, hs.wakeGap = now, min(max(2*hs.wakeGap, HelloIntervalMin), HelloIntervalMax)
	hs.Kept, hs.Interval = false, HelloIntervalMin
	hs.putOff = false // the peer's application no longer delays its decision
	hs.until = now.Add(timeout).Min(hs.latest)
}

// Later reports whether the peer's application has asked this side to try later, and returns the
// code in the answer of this application.
func (hs *Handshake) Later() (code uint16, ok bool) { return hs.later, hs.putOff }

// mayShow reports whether the peer has sent cookies for the command channel and the data channel,
// so that the next Hello can contain both cookies.
func (hs *Handshake) mayShow() bool {
	for i := range hs.shown {
		if hs.shown[i].valueBytes == 0 {
			return false
		}
	}
	return true
}

// Show copies the cookies of the command channel and the data channel into a Hello, together with
// the addresses for which the peer made the cookies. If a cookie is missing, Show does nothing.
func (hs *Handshake) Show(hello *frag.Hello) {
	if !hs.mayShow() {
		return
	}
	cmd, data := &hs.shown[frag.ProbeCommand], &hs.shown[frag.ProbeData]
	hello.CommandName, hello.CommandCookie = cmd.addr[:cmd.addrBytes], cmd.value[:cmd.valueBytes]
	hello.DataName, hello.DataCookie = data.addr[:data.addrBytes], data.value[:data.valueBytes]
}

// OnProvenHello handles a Hello that contains this side's connection tag.
func (hs *Handshake) OnProvenHello(hello *frag.Hello) {
	all := hello.Proven == frag.ProvenAll
	hs.confirmed = true
	hs.ready = hs.ready || all
	hs.unheard = hs.unheard || !all
}

// Answers reports whether a HelloAck answers a Hello of this handshake.
func (hs *Handshake) Answers(hello *frag.Hello) bool {
	return hello.Nonce == hs.Nonces[hello.Probe]
}

// OnHelloAck processes a HelloAck. OnHelloAck detects, by the nonce of the HelloAck, whether the
// peer has dropped packets of this side because the peer was not connected yet.
func (hs *Handshake) OnHelloAck(hello *frag.Hello) {
	if hello.Probe == frag.ProbeCommand && hs.last != 0 {
		first, again := hello.Nonce == hs.last, hello.Nonce == hs.Nonces[frag.ProbeCommand]
		hs.unheard = hs.unheard || first && hello.Proven != frag.ProvenAll || again && !first
	}
	if hello.Proven == frag.ProvenAll {
		hs.confirmed, hs.ready = true, true
	}
}

// ReachesPeer reports whether the peer's endpoint has proven that it receives on the command
// channel.
func (hs *Handshake) ReachesPeer() bool {
	return hs.Bound && hs.Proven&frag.ProbeCommand.Bit() != 0
}

// BeginConfirm starts the rounds of Hellos with which this side reports that the command channel
// and the data channel work. The argument "nonce" of BeginConfirm is the nonce of the Hello in the
// first round.
func (hs *Handshake) BeginConfirm(nonce uint64) {
	hs.Interval = HelloIntervalMin
	hs.last, hs.Nonces[frag.ProbeCommand] = nonce, nonce
}

// HeardBy reports whether a HelloAck or a Retry, as the answer to a Hello, has arrived through a
// channel.
func (hs *Handshake) HeardBy(p frag.Probe) bool {
	return hs.Proven&p.Bit() != 0 || hs.shown[p].valueBytes > 0
}

// Asks reports whether a round of Hellos includes the given channel. Until answers have arrived on
// the command channel and the data channel, a round of Hellos includes each channel on which no
// answer has arrived. When answers have arrived on the command channel and the data channel, a
// round of Hellos is one Hello on the command channel, which reports to the peer that both of these
// channels work. While the peer's endpoint is unknown and a cookie has arrived on only one channel,
// no Hello is sent on the channel with the cookie.
func (hs *Handshake) Asks(p frag.Probe) bool {
	if hs.Proven == frag.ProvenAll {
		return p == frag.ProbeCommand
	}
	waits := !hs.Bound && !hs.mayShow() && hs.shown[p].valueBytes > 0
	return hs.Proven&p.Bit() == 0 && !waits
}

// MayAsk reports whether a half-open endpoint may probe its peer before the timer expires, and
// records the time of the permitted probe.
func (hs *Handshake) MayAsk(now Time) bool {
	if hs.askedAt != 0 && now.Sub(hs.askedAt) < HelloIntervalMin {
		return false
	}
	hs.askedAt = now
	return true
}

// MayHurry reports whether the limits allow a repetition of the unanswered Hellos before the timer
// expires, and counts the repetition. MayHurry allows at most hurriesMax repetitions in one
// handshake, and at most one repetition at the same time "now".
func (hs *Handshake) MayHurry(now Time) bool {
	if hs.Proven == frag.ProvenAll || hs.Kept || hs.hurried >= hurriesMax || hs.askedAt == now {
		return false
	}
	hs.hurried++
	hs.askedAt = now
	return true
}

// NextRound begins a round of Hellos, and returns the time until the next round.
func (hs *Handshake) NextRound() time.Duration {
	d := hs.Interval
	hs.Interval = min(2*hs.Interval, HelloIntervalMax)
	return d
}

// Left returns the remaining time until the handshake fails. When the time limit of the handshake
// has passed, the result of Left is negative.
func (hs *Handshake) Left(now Time) time.Duration { return hs.until.Sub(now) }

// Contest records that an endpoint of the peer has returned this side's connection tag, although
// this side has sent the tag to a different endpoint of the peer. The endpoint to which the tag was
// sent has a round trip plus the argument "longer" to return the tag. The result "after" of Contest
// is the remaining time for the return of the tag. If the endpoint to which the tag was sent does
// not return it in time, this side must begin its handshake again under a new connection tag. The
// result "waits" of Contest says whether time remains for the return of the tag.
func (hs *Handshake) Contest(now Time, longer time.Duration) (after time.Duration, waits bool) {
	after = max(hs.offeredAt.Add(hs.trip).Sub(now), 0) + longer
	if after == 0 {
		return 0, false
	}
	hs.contested = true
	return min(after, hs.Left(now)), true
}

// Check verifies that the fields of the handshake are consistent.
func (hs *Handshake) Check() error {
	switch {
	case hs.Interval < HelloIntervalMin || hs.Interval > HelloIntervalMax:
		return fmt.Errorf("rounds of Hellos every %v", hs.Interval)
	case hs.Proven&^frag.ProvenAll != 0 || hs.hurried > hurriesMax || hs.trip < 0:
		return fmt.Errorf("channels %#x proven, hurried %d times, a trip of %v", hs.Proven, hs.hurried,
			hs.trip)
	case hs.Offered == 0 && hs.offeredAt != 0:
		return fmt.Errorf("its tag was told at %d to nobody", hs.offeredAt)
	case hs.Kept && (hs.Bound || !hs.wanted):
		return errors.New("its request is kept, although a peer is known or nobody wants it")
	case !hs.wanted && (hs.until != 0 || hs.expected != 0 || hs.DataName != ""):
		return fmt.Errorf("not wanted, but until %d to reach %#x at %q", hs.until, hs.expected,
			hs.DataName)
	}
	return nil
}
