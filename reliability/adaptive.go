package reliability

import (
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// The type "adaptive" is the state of the loss recovery of one Sender in the profile adaptive.
//
// The profile adaptive detects lost packets by time, as RACK-TLP (RFC 8985) does. An unacknowledged
// packet is declared lost if it has been in flight for longer than a round trip plus the reordering
// window, and a packet that was sent after it on the same channel has arrived. The reordering
// window is widened when packets arrive out of order, and when retransmissions turn out to be
// spurious. If no ACK arrives for about two round trips, the sender retransmits the oldest packet
// in flight once, as a probe. If no ACK follows the probe, the sender retransmits the oldest packet
// at growing intervals, as at the probe time-outs of RFC 9002 section 6.2. One timer causes both
// the probe and the later retransmissions of the oldest packet. The ACK of a probe tells the sender
// which packets are missing at the peer.
//
// A Sender has one retransmission timer for all its packets in flight.
type adaptive struct {
	shared *adaptiveShared

	paths [channels]path // measured by the packets of each channel
	cong  congestion
	pacer pacer
	// For each channel, latestArrived describes the packet with the latest transmission time among
	// those that have arrived.
	latestArrived [channels]arrival
	// Among the retransmitted packets that have arrived on the data channel, resentArrived describes
	// the one with the latest transmission time. When a packet arrives that was sent after the packet
	// in resentArrived and never retransmitted, resentArrived is cleared.
	resentArrived arrival

	timer       hotel.Room // 0: the timer does not run
	timerAt     mono.Time  // when the timer ends
	lossAt      mono.Time  // when to look for lost packets even without a new ACK, or Never
	restartedAt mono.Time  // latest restart of the congestion window; or longAgo
	// sweepAt is the time at which the unacknowledged packets that were sent before the latest restart
	// of the congestion window are declared lost.
	sweepAt     mono.Time
	sentAt      [channels]mono.Time     // when something was sent last
	progressAt  mono.Time               // of the latest progress or time-out; or longAgo
	ackedAt     mono.Time               // when something was acknowledged last
	wait        [channels]time.Duration // time without an ACK until the oldest packet is resent
	waitMax     time.Duration           // the largest wait
	peerDelay   time.Duration           // how long the peer may hold an ACK back
	ackLag      time.Duration           // added to the latest round by peerDelay
	reorderSeen time.Duration           // the largest delay of a packet that was not lost
	// reorderShift is the number of times that spurious retransmissions have doubled the reordering
	// window.
	reorderShift uint8
	backoff      uint8 // time-outs since anything was acknowledged

	selective        bool // the peer sends selective ACKs
	fixed            bool // there is no congestion window
	rouses           bool // the packets in flight follow a pause: see posted
	inOrder          bool // the ACK being processed covers several packets, and there is no gap
	gaps             bool // a packet has arrived before an older one, or resentArrived is set
	arrivedOutOfTurn bool // a packet arrived before an older one, since the latest check for losses

	lost         int32 // packets declared lost, and not retransmitted yet
	lostWaiting  int32 // lost packets neither on the resend list nor refused
	resendBudget int32 // packets that may be retransmitted, times budgetUnits
	refused      refusals

	copies                 uint32  // duplicates received, as the peer counts them
	spurious, spuriousSeen uint32  // spurious retransmissions; those before this round
	quietRounds            uint8   // rounds since the latest spurious retransmission
	untested               uint8   // rounds since a packet was held back
	lastMeasured           Channel // the channel of the packet measured last
	// resentInRound contains the numbers of retransmissions in the present and in the previous round
	// trip, not counting those that are known to be spurious.
	resentInRound [2]int32
	roundEnd      seq.Num   // a round trip ends when this packet has arrived
	newest        seq.Num   // latest number that has arrived
	roundAt       mono.Time // when this round began
}

// The type "arrival" describes a packet whose arrival an ACK has reported to the sender.
type arrival struct {
	at     mono.Time // when it was sent
	seq    seq.Num
	rtt    time.Duration
	seenAt mono.Time // when it became known
}

const (
	// If a packet waits in the peer's receive queue for unreadLeast or longer, the peer's process
	// counts as overloaded or descheduled. As in the congestion control Swift (Kumar et al., SIGCOMM
	// 2020), the time that a packet waits in the peer's receive queue does not count as network delay.
	unreadLeast = 500 * time.Microsecond

	// The retransmission budget limits how many packets may be retransmitted. The retransmission
	// budget grows by one packet for each eight delivered packets. At the end of each round trip, the
	// retransmission budget grows by another eight packets plus a quarter of the packets in flight.
	// The unused retransmission budget is limited to 64 packets plus the packets in flight. An unused
	// retransmission budget suffices to retransmit all packets in flight if they are lost at the same
	// time.
	budgetUnits     = 8
	budgetRound     = 8 * budgetUnits
	budgetFirst     = 64 * budgetUnits
	quietRoundsMax  = 16
	reorderShiftMax = 6
	backoffMax      = 20
	backoffRestart  = 3
)

// longAgo is a time that is earlier than all events of any Sender.
const longAgo = -mono.Never / 2

type adaptiveShared struct {
	rules   *Rules
	timers  *hotel.Hotel[*Sender] // a room for each Sender
	counted Counts
	first   int32 // initial window of a Sender without packets in flight and measurements
	stops   bool  // a timer stops when there is nothing in flight
}

// adaptiveTickNs is the resolution of the retransmission timers in the profile adaptive, in
// nanoseconds.
const adaptiveTickNs = 1 << 13

// onTheWay returns the number of packets in transit. A packet counts as in transit from its
// transmission until an ACK reports its arrival, the sender declares it lost, or the peer refuses
// it for lack of memory.
func (a *adaptive) onTheWay(s *Sender) int32 { return s.next.Sub(s.oldest) - s.sacked - a.lost }

// The method "room" returns how many packets, including retransmissions, the congestion window
// permits to be sent at present.
func (a *adaptive) room(s *Sender) int32 {
	if a.fixed {
		return int32(s.window)
	}
	return a.cong.window - a.onTheWay(s) - (a.lost - a.lostWaiting - a.refused.count)
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

// sendAgain puts a packet in flight on the retransmission list, unless the packet is already on
// this list.
func (a *adaptive) sendAgain(s *Sender, t Token, cause Cause) {
	p := s.segment(t)
	if p.state != Posted {
		return
	}
	if s.patient { // no packet is in flight, and the timer is that of a lone reply
		s.patient, a.progressAt = false, longAgo
	}
	if p.lost {
		a.stopWaiting(s, p)
	} else {
		a.lost++
		s.needBoard().setAside(p.seq)
	}
	a.resendBudget = max(a.resendBudget-budgetUnits, 0)
	s.segs.again(t, cause)
}

// stopWaiting records that the retransmission of a lost segment no longer waits for the
// retransmission budget or for memory at the peer.
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
