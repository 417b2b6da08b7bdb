package reliability

import (
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// adaptive is the policy of the profile adaptive: its state for one Sender.
//
// Loss is found by time, as in RACK-TLP (RFC 8985): a packet is lost when one that was sent later,
// on the same channel, has arrived, and the packet itself is out for longer than a round trip and
// the reorder window. The reorder window grows with the reordering seen, and after spurious
// retransmissions. Without an ACK for about two round trips the oldest packet is sent again once,
// and then at growing intervals (a probe and the time-outs of RFC 9002 section 6.2, which share one
// timer): its ACK shows which other packets are missing.
//
// There is one timer for all packets in flight, and it is lazy: sending only records the time, and
// a timer that expires too early is restarted.
type adaptive struct {
	shared *adaptiveShared

	paths [channels]path // measured by the packets of each channel
	cong  congestion
	pacer pacer
	// latestArrived is, for each channel, the latest sent of the packets that have arrived.
	latestArrived [channels]arrival
	// resentArrived is the latest retransmitted packet that has arrived on the data channel, unless
	// a packet sent only once has arrived since: see onResentArrived.
	resentArrived arrival

	timer        hotel.Room              // 0: it does not run
	timerAt      mono.Time               // when it ends
	lossAt       mono.Time               // when packets may be found lost without more news, or Never
	restartedAt  mono.Time               // when the congestion window was restarted last; or longAgo
	sweepAt      mono.Time               // from then on, what was sent before is lost; or Never
	sentAt       [channels]mono.Time     // when something was sent last
	progressAt   mono.Time               // of the latest progress or time-out; or longAgo
	ackedAt      mono.Time               // when something was acknowledged last
	wait         [channels]time.Duration // for an answer, before the oldest packet is sent again
	waitMax      time.Duration           // most that wait may be
	peerDelay    time.Duration           // how long the peer may hold an ACK back
	ackLag       time.Duration           // by which that made the latest round longer
	reorderSeen  time.Duration           // by how much packets have come late that were not lost
	reorderShift uint8                   // doublings of the reorder window, after spurious copies
	backoff      uint8                   // time-outs since anything was acknowledged

	selective        bool // the peer's ACKs are
	fixed            bool // there is no congestion window
	rouses           bool // what is in flight follows a pause: see posted
	inOrder          bool // the ACK being processed covers several packets, and there is no gap
	gaps             bool // a packet has arrived before an older one, or resentArrived is set
	arrivedOutOfTurn bool // a packet has, since losses were looked for

	lost         int32 // packets that are taken for lost, and not sent again yet
	lostWaiting  int32 // of these, those that are not on the resend list and not refused
	resendBudget int32 // packets that may be sent again, times budgetUnits
	refused      refusals

	copies                 uint32    // received before, as the peer counts them
	spurious, spuriousSeen uint32    // packets sent again in vain; those known when this round began
	quietRounds            uint8     // rounds since there was one
	untested               uint8     // rounds since a packet was withheld
	lastMeasured           Channel   // by which the packet went that was measured last
	resentInRound          [2]int32  // in this round and the one before, but the spurious ones
	roundEnd               seq.Num   // when this has arrived, a round trip is over
	newest                 seq.Num   // latest number that has arrived
	roundAt                mono.Time // when this one began
}

// arrival is a packet that has arrived.
type arrival struct {
	at     mono.Time // when it was sent
	seq    seq.Num
	rtt    time.Duration
	seenAt mono.Time // when it became known
}

const (
	// unreadLeast is the time from which on unread packets mean more than a busy process: it was
	// not scheduled, or is behind, which credits must bound. As in Swift, such host delay is kept
	// apart from network delay.
	unreadLeast = 500 * time.Microsecond

	// The resend budget: an eighth of the delivered packets, plus, in each round trip, a few
	// packets and a quarter of those in flight, all of which may be lost at once. Savings are
	// bounded by the latter amount. On a path with heavier losses retransmissions do not help.
	budgetUnits     = 8
	budgetRound     = 8 * budgetUnits
	budgetFirst     = 64 * budgetUnits
	quietRoundsMax  = 16
	reorderShiftMax = 6
	backoffMax      = 20
	backoffRestart  = 3
)

// longAgo is an instant before any event of a sender.
const longAgo = -mono.Never / 2

// adaptiveShared is the state shared by the Senders of a module.
type adaptiveShared struct {
	rules   *Rules
	timers  *hotel.Hotel[*Sender] // a room for each Sender
	counted Counts
	spared  bool // the timers that are due wait already, until what has arrived is read
	stops   bool // a timer stops when there is nothing in flight
}

// adaptiveTickNs is the resolution of the timers, much finer than a round trip.
const adaptiveTickNs = 1 << 13

// onTheWay is the number of packets of the window that are not known to have arrived, not declared
// lost, and not refused for lack of memory.
func (a *adaptive) onTheWay(s *Sender) int32 { return s.next.Sub(s.oldest) - s.sacked - a.lost }

// room is the number of packets, new or retransmitted, that the congestion window admits.
func (a *adaptive) room(s *Sender) int32 {
	if a.fixed {
		return int32(s.window)
	}
	return a.cong.window - a.onTheWay(s) - (a.lost - a.lostWaiting - a.refused.count)
}

func (a *adaptive) allows(s *Sender) int32 {
	if a.fixed {
		return unlimited
	}
	return min(a.room(s), a.pacer.room(s.next))
}

func (a *adaptive) path(s *Sender) PathState {
	p := &a.paths[a.lastMeasured]
	state := PathState{
		RoundTrip: p.srtt, Deviation: p.rttvar, Least: p.base,
		WindowPackets: int(s.window), InFlightPackets: int(a.onTheWay(s)),
	}
	if !a.fixed {
		state.WindowPackets, state.SlowStart = int(min(a.cong.window, int32(s.window))), a.cong.slow
	}
	return state
}

// sendAgain puts a packet in flight on the resend list, if it is not there already.
func (a *adaptive) sendAgain(s *Sender, t Token, cause Cause) {
	p := s.segment(t)
	if p.state != Posted {
		return
	}
	s.patient = false // which is not in flight alone, as it was
	if p.lost {
		a.stopWaiting(s, p)
	} else {
		a.lost++
		s.setAside(p.seq)
	}
	a.resendBudget = max(a.resendBudget-budgetUnits, 0)
	s.segs.again(t, cause)
}

// stopWaiting takes a segment off the count of those that wait for the resend budget, or for
// memory.
func (a *adaptive) stopWaiting(s *Sender, p *segment) {
	p.lost = false
	if p.refusedBytes != 0 {
		a.forgive(s, p)
		return
	}
	a.lostWaiting--
}

// stop stops the timer of a sender with nothing in flight, if StopIdle was called.
func (a *adaptive) stop(s *Sender) {
	if a.shared.stops && a.timer != 0 && s.oldest == s.next && !a.pacer.short(s.next) {
		a.shared.timers.Checkout(a.timer)
		a.timer, a.timerAt = 0, mono.Never
	}
}

// abandon stops the timer of a sender whose peer is gone.
func (a *adaptive) abandon() {
	if a.timer != 0 {
		a.shared.timers.Checkout(a.timer)
	}
	a.timer, a.lost, a.lostWaiting, a.refused = 0, 0, 0, refusals{}
}
