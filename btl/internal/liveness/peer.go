package liveness

import (
	"fmt"
	"math"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Time is an instant in nanoseconds on a clock that does not advance while the process is
// suspended.
type Time = mono.Time

const (
	// TriesMin is the minimum number of unanswered retransmissions or probes before a silent peer
	// is declared dead.
	TriesMin = 3
	// oldestTriesMin is the minimum number of retransmissions of the oldest packet in flight before a
	// peer is declared dead although packets from it arrive. If a peer sends packets but does not
	// acknowledge the oldest packet in flight, it is possible that the path merely loses many packets.
	oldestTriesMin = 8
	// lifeRound is the time of silence after which this side sends a restart probe, which asks whether
	// the peer has restarted. Successive restart probes to a peer are at least lifeRound apart.
	lifeRound = 40 * time.Millisecond
)

// Rules holds the parameters that decide when a peer is probed, and when a peer is dead.
type Rules struct {
	PeerTimeout time.Duration // longest time for which an answer of the peer may be outstanding
	// KeepAlive is the time of silence after which a peer is probed. A negative KeepAlive disables the
	// probes of silent peers.
	KeepAlive time.Duration
}

// PressAfter returns the time of silence after which a peer that holds a scarce resource is probed,
// which is at the same time the interval between these probes.
func (r *Rules) PressAfter() time.Duration { return r.PeerTimeout / 8 }

// idleAfter returns the time within which an idle peer must answer after its second probe. If the
// first two probes are sent PressAfter and twice PressAfter after the peer's latest packet, the
// peer counts as dead after a silence of PeerTimeout.
func (r *Rules) idleAfter() time.Duration { return r.PeerTimeout - 2*r.PressAfter() }

// AskEvery returns the interval at which a peer is probed over a reliable fabric while an
// acknowledgement of the peer is outstanding.
func (r *Rules) AskEvery() time.Duration {
	d := r.PeerTimeout / 4
	if r.KeepAlive > 0 {
		d = min(d, r.KeepAlive)
	}
	return d
}

// sooner returns the short interval at which a peer is probed if its PeerTimeout is about to pass,
// but too few probes were sent.
func (r *Rules) sooner() time.Duration { return r.PeerTimeout / 16 }

// Peer records when packets and answers of one peer have arrived. Begin initializes a Peer.
type Peer struct {
	heardAt Time // latest packet of the peer
	// owesAt is the time when the oldest packet in flight became the oldest, or when the peer refused
	// this packet for lack of memory, whichever was later.
	owesAt     Time
	AckedAt    Time // when the peer last acknowledged a packet
	answeredAt Time
	doubts     *doubts // made on first use
	channels
	oldest seq.Num
	// oldestResends is the number of retransmissions of the oldest packet in flight since the time
	// owesAt.
	oldestResends, silentResends tries
	questions                    tries          // probes sent since heardAt
	asking                       [Channels]bool // the latest probe of the channel has no answer
	heardBy                      uint8          // the channel of the latest packet of the peer
	Pressed                      bool           // the peer is probed now, regardless of KeepAlive
}

// The type "tries" counts unanswered attempts, up to the largest number that it can hold.
type tries uint16

func (n *tries) add() {
	if *n < math.MaxUint16 {
		*n++
	}
}

// The type "doubts" contains the data that is recorded only about a peer that was silent, or that
// is allowed to be silent for longer than PeerTimeout.
type doubts struct {
	away         time.Duration // how much longer than PeerTimeout the peer may be silent
	askedAgainAt Time          // time of the second of the probes that Peer.questions counts
	resentAt     Time          // time of the latest resend that silentResends counts
	thereAskedAt Time          // time of the latest probe whether the peer's endpoint exists, or 0
	lifeAskedAt  Time          // time of the latest restart probe (AskedLife)
	lifeNonce    uint64        // nonce of the latest restart probe
	confirmAt    Time          // time of the latest probe that requested an ACK (Watches.ask), or 0
	confirmNext  seq.Num       // next sequence number after the probe at confirmAt
}

func (p *Peer) doubted() *doubts {
	if p.doubts == nil {
		p.doubts = new(doubts)
	}
	return p.doubts
}

// Begin starts the record of a peer.
func (p *Peer) Begin(now Time) { p.heardAt, p.owesAt = now, now }

// Grant allows the peer to be silent for the time "away" in addition to PeerTimeout.
func (p *Peer) Grant(away time.Duration) {
	if away != 0 || p.doubts != nil {
		p.doubted().away = away
	}
}

// Heard records that a packet of the peer has arrived through a channel.
func (p *Peer) Heard(now Time, channel int) {
	p.heardAt, p.heardBy = now, uint8(channel)
	p.silentResends, p.questions = 0, 0
}

// FirstInFlight records that a packet was sent while no other packet was in flight.
func (p *Peer) FirstInFlight(now Time) { p.owesAt, p.oldestResends = now, 0 }

// Acked records that the peer has acknowledged a packet.
func (p *Peer) Acked(now Time) { p.AckedAt = now }

// OldestIs records the sequence number of the oldest packet in flight. The caller must call
// OldestIs after each acknowledgement.
func (p *Peer) OldestIs(now Time, oldest seq.Num) {
	if oldest != p.oldest {
		p.oldest = oldest
		p.OldestAnswered(now)
	}
}

// OldestAnswered records that the peer has acknowledged the oldest packet in flight, or has
// reported that it has no memory for this packet.
func (p *Peer) OldestAnswered(now Time) { p.owesAt, p.oldestResends = now, 0 }

// Resent records a retransmission. The argument "oldest" of Resent says whether the retransmitted
// packet is the oldest in flight. The argument "timedOut" of Resent says whether a time-out has
// caused the retransmission. The argument "unread" of Resent says whether received packets possibly
// wait unread. The result "askLife" of Resent says whether so many retransmissions were not
// answered that the peer should be asked whether it has restarted.
//
// A process that resumes after a suspension handles expired timers before it reads received
// packets. If received packets possibly wait unread, Resent ignores a time-out that occurs shortly
// after the previous time-out, because one of these packets can contain the missing
// acknowledgement.
func (p *Peer) Resent(now Time, r *Rules, oldest, timedOut, unread bool) (askLife bool) {
	if oldest {
		p.oldestResends.add()
	}
	if !timedOut {
		return false
	}
	d := p.doubted()
	if p.silentResends > 0 && unread && now.Sub(d.resentAt) < r.sooner() {
		return false
	}
	p.silentResends.add()
	askLife = p.silentResends >= TriesMin && d.resentAt != now
	d.resentAt = now
	return askLife
}

// Asked counts a probe, and reports whether the previous probe was not answered.
func (p *Peer) Asked(now Time) (again bool) {
	if p.questions.add(); p.questions == 2 {
		p.doubted().askedAgainAt = now
	}
	return p.questions > 1
}

// AskAnew resets the number of unanswered probes to zero.
func (p *Peer) AskAnew() { p.questions = 0 }

// Answered records that the peer has answered a probe.
func (p *Peer) Answered(now Time) { p.answeredAt = now }

// AskedThere records the time at which the peer was asked whether its endpoint still exists.
func (p *Peer) AskedThere(now Time) { p.doubted().thereAskedAt = now }

// ForgetThere discards the record that the peer was asked whether its endpoint still exists
// (AskedThere).
func (p *Peer) ForgetThere() {
	if p.doubts != nil {
		p.doubts.thereAskedAt = 0
	}
}

// IsThere reports whether the peer has answered a probe after the call of AskedThere.
func (p *Peer) IsThere() bool {
	d := p.doubts
	return d != nil && d.thereAskedAt != 0 && p.answeredAt >= d.thereAskedAt
}

// MayAskLife reports whether this side may, at the time "now", send a restart probe, which asks
// whether the peer has restarted.
func (p *Peer) MayAskLife(now Time) bool {
	last := p.heardAt
	if p.doubts != nil {
		last = max(last, p.doubts.lifeAskedAt)
	}
	return now.Sub(last) > lifeRound
}

// LifeNonce returns the nonce for the next restart probe, which asks whether the peer has
// restarted. Until a packet of the peer arrives, LifeNonce returns the nonce of the previous
// restart probe again. If LifeNonce returns 0, the caller must draw a new nonce.
func (p *Peer) LifeNonce() uint64 {
	if d := p.doubts; d != nil && p.heardAt < d.lifeAskedAt {
		return d.lifeNonce
	}
	return 0
}

// AskedLife records that this side has sent a restart probe with the given nonce, which asks
// whether the peer has restarted.
func (p *Peer) AskedLife(now Time, nonce uint64) {
	d := p.doubted()
	d.lifeAskedAt, d.lifeNonce = now, nonce
}

// AnswersLife reports whether a Reject with the given nonce counts as the answer to the latest
// restart probe, which asks whether the peer has restarted. The Reject does not count if a packet
// of the peer has arrived after the restart probe was sent.
func (p *Peer) AnswersLife(nonce uint64) bool {
	d := p.doubts
	return d != nil && d.lifeNonce != 0 && nonce == d.lifeNonce && p.heardAt < d.lifeAskedAt
}

// Quiet returns the time since the latest packet of the peer arrived.
func (p *Peer) Quiet(now Time) time.Duration { return now.Sub(p.heardAt) }

// HeardAfter reports whether a packet of the peer has arrived after the given time.
func (p *Peer) HeardAfter(t Time) bool { return p.heardAt > t }

// Unanswered returns the time since the peer last answered a probe or acknowledged a packet.
func (p *Peer) Unanswered(now Time) time.Duration {
	return now.Sub(max(p.answeredAt, p.AckedAt))
}

// DeadAfter returns how long an answer of the peer can be outstanding before the peer is declared
// dead.
func (p *Peer) DeadAfter(r *Rules) time.Duration {
	if d := p.doubts; d != nil {
		return r.PeerTimeout + d.away
	}
	return r.PeerTimeout
}

// Press makes the next probe of the peer due as soon as the peer has been silent for PressAfter,
// even if KeepAlive has not passed.
func (p *Peer) Press() { p.Pressed = true }

// Debt is the kind of answer that is outstanding from a peer.
type Debt uint8

// The debts.
const (
	Ack     Debt = iota // acknowledgement of the oldest packet in flight, which is resent
	Confirm             // acknowledgement of packets, over a reliable fabric
	Sign                // answer to a probe
	Idle                // answer to a probe, from a peer that was possibly idle before the first probe
)

// String returns the name of the owed answer.
func (d Debt) String() string {
	switch d {
	case Ack:
		return "acknowledgement"
	case Confirm:
		return "confirmation"
	case Sign, Idle:
		return "sign of life"
	}
	return "unknown"
}

// Verdict is the decision whether a peer is dead, with the reason.
type Verdict struct {
	Dead  bool
	Owed  time.Duration // time for which the answer has been outstanding
	Tries int           // number of unanswered attempts to get the answer
	// Within is the time until the next probe must be sent. Probes at intervals of at most Within
	// ensure that a dead peer is detected when its PeerTimeout has passed.
	Within  time.Duration
	debt    Debt
	quiet   time.Duration // time since the latest packet of the peer
	silent  bool          // no packet has arrived for as long as a peer may be silent
	heardBy uint8         // the channel of the latest packet
}

// Why returns a text that says why a peer was declared dead. The text names the silent channels and
// the number of unanswered probes or retransmissions.
func (v *Verdict) Why() string {
	owed, tries := v.Owed.Round(time.Millisecond), v.Tries
	switch {
	case v.debt != Ack:
		return fmt.Sprintf("both channels are silent for %v, asked %d times", owed, tries)
	case v.silent:
		return fmt.Sprintf("both channels are silent: a packet is not acknowledged for %v, sent again "+
			"%d times", owed, tries)
	}
	return fmt.Sprintf("the data channel is not answered: a packet is not acknowledged for %v, sent "+
		"again %d times by it; the peer was heard by the %s channel %v ago", owed, tries,
		channelNames[v.heardBy], v.quiet.Round(time.Millisecond))
}

// Verdict decides whether the peer is dead because it has not sent an expected answer. The argument
// "grace" of Verdict is added to the peer's time to answer, because received packets possibly wait
// unread.
//
// An idle peer has at least the time idleAfter to answer after its second probe, because it was
// possibly silent for longer than PeerTimeout before its first probe.
//
// A peer that sends packets but never acknowledges the oldest packet in flight is declared dead as
// well, because the path possibly carries only small packets.
func (p *Peer) Verdict(now Time, r *Rules, debt Debt, grace time.Duration) Verdict {
	v := Verdict{Tries: int(p.questions), debt: debt, quiet: p.Quiet(now), heardBy: p.heardBy}
	after, enough, again := p.DeadAfter(r), TriesMin, r.sooner()
	switch debt {
	case Ack:
		v.Owed = now.Sub(p.owesAt)
		if v.silent = v.quiet >= after; !v.silent {
			v.Tries, enough = int(p.oldestResends), oldestTriesMin
		} else {
			v.Tries, again = int(p.silentResends), time.Millisecond
		}
	case Confirm:
		v.Owed = now.Sub(max(p.heardAt, p.owesAt))
	case Sign, Idle:
		v.Owed = v.quiet
	}
	v.Within = after - v.Owed
	if debt == Idle && p.questions > 1 {
		left := r.idleAfter() + p.doubts.away - now.Sub(p.doubts.askedAgainAt)
		v.Within = max(v.Within, left)
	}
	v.Dead = v.Within+grace <= 0 && v.Tries >= enough
	if v.Within <= 0 {
		v.Within = again
	}
	return v
}

// Next returns the time until the next probe, which is the smaller of the argument "d" and the time
// that the peer has left to answer. If too few probes were sent when the peer's time to answer has
// passed, the missing probes are sent at short intervals.
func (v *Verdict) Next(d time.Duration) time.Duration {
	return max(min(d, v.Within), time.Millisecond)
}

// Forever is the result of SignDue if the peer never needs to be probed.
const Forever = time.Duration(math.MaxInt64)

// SignDue returns the time until the peer must be probed, where 0 means immediately.
func (p *Peer) SignDue(now Time, r *Rules) time.Duration {
	quiet := p.Quiet(now)
	p.Pressed = p.Pressed && quiet >= r.PressAfter()
	switch {
	case p.Pressed:
		return 0
	case r.KeepAlive < 0:
		return Forever
	}
	return max(r.KeepAlive-quiet, 0)
}

// Check returns an error if a recorded time is later than the time "now", and nil otherwise.
func (p *Peer) Check(now Time) error {
	resentAt := Time(0)
	if p.doubts != nil {
		resentAt = p.doubts.resentAt
	}
	if max(p.heardAt, p.owesAt, p.AckedAt, resentAt, p.answeredAt) > now {
		return fmt.Errorf("heard %d, waits since %d, got on %d, its oldest packet is resent %d, it "+
			"answered %d, and it is %d", p.heardAt, p.owesAt, p.AckedAt, resentAt, p.answeredAt, now)
	}
	return p.channels.check(now)
}
