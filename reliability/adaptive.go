package reliability

import (
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// adaptive is the policy of the profile of that name: what it keeps for one Sender.
//
// Loss is found by time, as in RACK-TLP (RFC 8985): a packet is lost when one that was sent later,
// on the same channel, has arrived, and the packet itself is out for longer than a round trip and a
// while. That while grows with the reordering that is seen, and when a copy proves to have been
// sent in vain. Without news for about two round trips the oldest packet is sent again once, and
// then at growing intervals (a probe and the time-outs of RFC 9002 section 6.2, which are one
// timer): its ACK tells what else is missing.
//
// There is one timer for all packets in flight, and it is lazy: sending only notes the time, and a
// timer that ends too early finds that out and starts again.
type adaptive struct {
	shared *adaptiveShared

	paths [channels]path // measured by the packets of each channel
	cong  congestion
	rack  [channels]delivered
	pacer pacer
	// copied is the latest, by the data channel, of the packets that were sent again, unless one that
	// was sent only once has arrived since: see onCopy.
	copied delivered

	hold      hotel.Room              // of the timer; 0: it does not run
	holdAt    mono.Time               // when that ends
	lossAt    mono.Time               // when packets may be found lost without further news, or Never
	sentAt    [channels]mono.Time     // when something was sent last
	since     mono.Time               // of the latest progress or time-out; or longAgo
	ackedAt   mono.Time               // when something was acknowledged last
	latest    Channel                 // by which the packet went that was measured last
	wait      [channels]time.Duration // for an answer, before the oldest packet is sent again
	limit     time.Duration           // most that wait may be
	peerDelay time.Duration           // how long the peer may hold an ACK back
	lag       time.Duration           // by which that made the latest round longer
	late      time.Duration           // by how much packets have come late that were not lost
	patience  uint8                   // doublings of the while, after copies that were sent in vain
	backoff   uint8                   // time-outs since anything was acknowledged

	selective bool
	fixed     bool  // there is no congestion window
	whole     bool  // the ACK being processed covers several packets, and no gap is known
	news      bool  // a packet has arrived out of turn since losses were looked for
	holes     bool  // a packet of the window has arrived before an older one, or copied is set
	gone      int32 // packets that are taken for lost, and not sent again yet
	marked    int32 // of these, those that are not on the resend list
	tokens    int32 // packets that may be sent again, times tokenUnits

	copies         uint32    // received before, as the peer counts them
	vain, vainSeen uint32    // packets sent again in vain; those known when this round began
	calm           uint8     // rounds since there was one
	again          [2]int32  // packets sent again in this round and the one before, but those in vain
	roundEnd       seq.Num   // when this has arrived, a round trip is over
	roundAt        mono.Time // when this one began
	newest         seq.Num   // latest number that has arrived
}

// delivered is the packet of a channel that was sent last of all that have arrived.
type delivered struct {
	at     mono.Time
	seq    seq.Num
	rtt    time.Duration
	seenAt mono.Time // when that became known
}

// The resend budget: an eighth of what is delivered, and in each round trip a few packets and a
// quarter of what is in flight; at most that is saved up, for it may be lost at once. A path that
// loses more than that is not helped by copies.
const (
	// unreadLeast is how long a process has left something unread that was not just busy: it had no
	// processor, or was behind, which is for credits to bound. No network is to blame for that, as
	// Swift tells the delay of hosts from that of the fabric.
	unreadLeast = 500 * time.Microsecond

	tokenUnits     = 8
	tokensRound    = 8 * tokenUnits
	tokensFirst    = 64 * tokenUnits
	calmRounds     = 16
	patienceMax    = 6
	backoffMax     = 20
	backoffRestart = 3
)

// longAgo is before everything that happens to a sender.
const longAgo = -mono.Never / 2

// adaptiveShared is what the Senders of a module have in common.
type adaptiveShared struct {
	rules   *Rules
	timers  *hotel.Hotel[*Sender] // a room for each Sender
	counted Counts
	spared  bool // the timers that are due wait already, until what has arrived is read
}

// adaptiveTickNs is how exact the timers are: much finer than a round trip.
const adaptiveTickNs = 1 << 13

// pipe is the number of packets on their way.
func (a *adaptive) pipe(s *Sender) int32 { return s.next.Sub(s.oldest) - s.sacked - a.gone }

// room is the number of packets, new ones or such to be sent again, that the congestion window is
// open to.
func (a *adaptive) room(s *Sender) int32 {
	if a.fixed {
		return int32(s.window)
	}
	return a.cong.window - a.pipe(s) - (a.gone - a.marked)
}

func (a *adaptive) allows(s *Sender) int32 {
	if a.fixed {
		return unlimited
	}
	return min(a.room(s), a.pacer.room(s.next))
}

func (a *adaptive) path(s *Sender) PathState {
	p := &a.paths[a.latest]
	state := PathState{
		RoundTrip: p.srtt, Deviation: p.rttvar, Least: p.base,
		WindowPackets: int(s.window), InFlightPackets: int(a.pipe(s)),
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
	if p.lost {
		a.unmark(p)
	} else {
		a.gone++
	}
	a.tokens = max(a.tokens-tokenUnits, 0)
	s.segs.again(t, cause)
}

// unmark takes a segment off those that wait for the budget.
func (a *adaptive) unmark(p *segment) {
	p.lost = false
	a.marked--
}

// abandon stops the timer of a sender whose peer is gone.
func (a *adaptive) abandon() {
	if a.hold != 0 {
		a.shared.timers.Checkout(a.hold)
	}
	a.hold, a.gone, a.marked = 0, 0, 0
}
