package reliability

import (
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// adaptive is the loss recovery of the profile adaptive for one Sender.
//
// The adaptive profile finds lost packets by time, as in RACK-TLP (RFC 8985). A packet is
// declared lost if a packet sent later on the same channel has arrived, and the lost packet has
// been in flight for longer than a round trip plus the reordering window. The reordering window
// grows with the observed reordering, and after spurious retransmissions. If no ACK arrives for
// about two round trips, the sender retransmits the oldest packet once, as a probe. If no ACK
// arrives after the probe either, the oldest packet is retransmitted at growing intervals, like the
// time-outs of RFC 9002 section 6.2. The probe and the later time-outs of the oldest packet use the
// same timer. The ACK of a probe shows which other packets are missing.
//
// A Sender has one retransmission timer for all its packets in flight.
type adaptive struct {
	shared *adaptiveShared

	paths [channels]path // measured by the packets of each channel
	cong  congestion
	pacer pacer
	// latestArrived is, for each channel, the most recently sent packet that has arrived.
	latestArrived [channels]arrival
	// resentArrived describes the retransmitted packet that was sent last among those that have
	// arrived on the data channel. The arrival of a packet that was never retransmitted clears
	// resentArrived (see onResentArrived).
	resentArrived arrival

	timer       hotel.Room // 0: the timer does not run
	timerAt     mono.Time  // when the timer ends
	lossAt      mono.Time  // time at which packets may be found lost without a new ACK, or Never
	restartedAt mono.Time  // when the congestion window was restarted last; or longAgo
	// At the time sweepAt, the unacknowledged packets that were sent before the latest restart of
	// the congestion window are declared lost.
	sweepAt     mono.Time
	sentAt      [channels]mono.Time     // when something was sent last
	progressAt  mono.Time               // of the latest progress or time-out; or longAgo
	ackedAt     mono.Time               // when something was acknowledged last
	wait        [channels]time.Duration // for an ACK, before the oldest packet is sent again
	waitMax     time.Duration           // the largest wait
	peerDelay   time.Duration           // how long the peer may hold an ACK back
	ackLag      time.Duration           // added to the latest round by peerDelay
	reorderSeen time.Duration           // the largest delay of a packet that was not lost
	// reorderShift is the number of times that the reordering window was doubled after spurious
	// retransmissions.
	reorderShift uint8
	backoff      uint8 // time-outs since anything was acknowledged

	selective        bool // the peer sends selective ACKs
	fixed            bool // there is no congestion window
	rouses           bool // the packets in flight follow a pause: see posted
	inOrder          bool // the ACK being processed covers several packets, and there is no gap
	gaps             bool // a packet has arrived before an older one, or resentArrived is set
	arrivedOutOfTurn bool // a packet arrived before an older one, since losses were looked for

	lost         int32 // packets declared lost, and not retransmitted yet
	lostWaiting  int32 // lost packets neither on the resend list nor refused
	resendBudget int32 // packets that may be retransmitted, times budgetUnits
	refused      refusals

	copies                 uint32  // duplicates received, as the peer counts them
	spurious, spuriousSeen uint32  // spurious retransmissions; those known when the round began
	quietRounds            uint8   // rounds since the latest spurious retransmission
	untested               uint8   // rounds since a packet was held back
	lastMeasured           Channel // the channel of the packet measured last
	// resentInRound holds the number of retransmissions in the present and in the previous round
	// trip. Spurious retransmissions are not counted.
	resentInRound [2]int32
	roundEnd      seq.Num   // a round trip ends when this packet has arrived
	newest        seq.Num   // latest number that has arrived
	roundAt       mono.Time // when this round began
}

// arrival describes a packet that has arrived at the peer.
type arrival struct {
	at     mono.Time // when it was sent
	seq    seq.Num
	rtt    time.Duration
	seenAt mono.Time // when it became known
}

const (
	// If a packet has waited in the receive queue for unreadLeast or longer, the receiving process
	// counts as overloaded or descheduled. Time in the receive queue is excluded from the network
	// delay, as in the congestion control Swift (Kumar et al., SIGCOMM 2020).
	unreadLeast = 500 * time.Microsecond

	// The retransmission budget is an eighth of the delivered packets, plus an allowance for each
	// round trip. The allowance for a round trip is a few packets plus a quarter of the packets in
	// flight, because all packets in flight may be lost at once. An unused retransmission budget is
	// kept for later, but only up to the allowance for one round trip.
	budgetUnits     = 8
	budgetRound     = 8 * budgetUnits
	budgetFirst     = 64 * budgetUnits
	quietRoundsMax  = 16
	reorderShiftMax = 6
	backoffMax      = 20
	backoffRestart  = 3
)

// longAgo is an instant earlier than the first event of any sender.
const longAgo = -mono.Never / 2

type adaptiveShared struct {
	rules   *Rules
	timers  *hotel.Hotel[*Sender] // a room for each Sender
	counted Counts
	first   int32 // initial window of a Sender without packets in flight and measurements
	stops   bool  // a timer stops when there is nothing in flight
}

// adaptiveTickNs is the resolution of the retransmission timers in nanoseconds.
const adaptiveTickNs = 1 << 13

// onTheWay is the number of packets in transit: sent, but neither known to have arrived, nor
// declared lost, nor refused for lack of memory.
func (a *adaptive) onTheWay(s *Sender) int32 { return s.next.Sub(s.oldest) - s.sacked - a.lost }

// room is the number of packets that the congestion window allows to be sent now. The number
// includes retransmissions.
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

// sendAgain puts a packet in flight on the retransmission list, unless the packet is already on the
// list.
func (a *adaptive) sendAgain(s *Sender, t Token, cause Cause) {
	p := s.segment(t)
	if p.state != Posted {
		return
	}
	s.patient = false // the packet is not in flight alone any more
	if p.lost {
		a.stopWaiting(s, p)
	} else {
		a.lost++
		s.setAside(p.seq)
	}
	a.resendBudget = max(a.resendBudget-budgetUnits, 0)
	s.segs.again(t, cause)
}

// stopWaiting removes a segment from the count of segments that wait for the retransmission budget
// or for memory at the peer.
func (a *adaptive) stopWaiting(s *Sender, p *segment) {
	p.lost = false
	if p.refusedBytes != 0 {
		a.forgive(s, p)
		return
	}
	a.lostWaiting--
}

func (a *adaptive) stop(s *Sender) {
	if a.shared.stops && a.timer != 0 && s.oldest == s.next && !a.pacer.short(s.next) {
		a.shared.timers.Checkout(a.timer)
		a.timer, a.timerAt = 0, mono.Never
	}
}

func (a *adaptive) abandon() {
	if a.timer != 0 {
		a.shared.timers.Checkout(a.timer)
	}
	a.timer, a.lost, a.lostWaiting, a.refused = 0, 0, 0, refusals{}
}
