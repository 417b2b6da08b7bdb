package liveness

import (
	"fmt"
	"math"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Time is an instant in nanoseconds on the owner's axis without pauses.
type Time = mono.Time

const (
	// TriesMin is the least number of unanswered resends or probes before a silent peer is dead: a
	// process that was itself stopped for a while finds all its timers expired.
	TriesMin = 3
	// oldestTriesMin is the least number of resends of the oldest packet for a peer that was heard
	// meanwhile: its path may be lossy, so more copies are needed.
	oldestTriesMin = 8
	// lifeRound is the silence of the peer, or the time since the last such probe, after which it
	// is probed for a restart.
	lifeRound = 40 * time.Millisecond
)

// Rules are the parameters by which all peers of an owner are judged.
type Rules struct {
	PeerTimeout time.Duration // for how long a peer may owe an answer
	// KeepAlive is the silence after which a peer is asked for a sign of life; negative: never.
	KeepAlive time.Duration
}

// PressAfter is the silence after which a peer that holds a scarce resource is probed, and the
// interval of such probes.
func (r *Rules) PressAfter() time.Duration { return r.PeerTimeout / 8 }

// AskEvery is the time between questions to a peer that owes a confirmation.
func (r *Rules) AskEvery() time.Duration {
	d := r.PeerTimeout / 4
	if r.KeepAlive > 0 {
		d = min(d, r.KeepAlive)
	}
	return d
}

// sooner is the time between tries that are still missing when a peer's time is over.
func (r *Rules) sooner() time.Duration { return r.PeerTimeout / 16 }

// Peer is what is known of one peer. The zero value is one of which nothing is known: Begin.
type Peer struct {
	heardAt  Time // latest packet of the peer
	owesAt   Time // since when something has been in flight
	ackedAt  Time // when something was acknowledged last
	oldestAt Time // when the oldest packet in flight became it, or the peer had no memory for it
	resentAt Time // when the latest of the resends was that silentResends counts
	// answeredAt is when the peer answered a question last.
	answeredAt Time
	away       time.Duration // by which it may be silent for longer
	oldest     seq.Num
	// oldestResends counts the resends of the oldest packet since oldestAt, and silentResends those by
	// time-out since heardAt, except those right after another.
	oldestResends, silentResends uint32
	questions                    uint32 // for a sign of life, since heardAt
	heardBy                      uint8  // the channel of the latest packet of the peer
	pressed                      bool   // it is asked now, whatever KeepAlive says
	channels
	doubts *doubts // made on first use
}

// doubts are of questions that few peers are asked.
type doubts struct {
	thereAskedAt Time   // when it was asked last whether its end is there still; 0 not yet
	lifeAskedAt  Time   // when it was asked last whether it has restarted
	lifeNonce    uint64 // by which the answer to that is known
}

func (p *Peer) doubted() *doubts {
	if p.doubts == nil {
		p.doubts = new(doubts)
	}
	return p.doubts
}

// Begin notes that a peer is dealt with from now on.
func (p *Peer) Begin(now Time) { p.heardAt, p.owesAt = now, now }

// Grant lets the peer be silent for so much longer than others.
func (p *Peer) Grant(away time.Duration) { p.away = away }

// Heard notes a packet of the peer that came by a channel.
func (p *Peer) Heard(now Time, channel int) {
	p.heardAt, p.heardBy = now, uint8(channel)
	p.silentResends, p.questions = 0, 0
}

// FirstInFlight notes that something is in flight from now on.
func (p *Peer) FirstInFlight(now Time) { p.owesAt, p.oldestResends = now, 0 }

// Acked notes that the peer has acknowledged something.
func (p *Peer) Acked(now Time) { p.ackedAt = now }

// OldestIs notes the number of the oldest packet in flight, when an acknowledgement was booked.
func (p *Peer) OldestIs(now Time, oldest seq.Num) {
	if oldest != p.oldest {
		p.oldest = oldest
		p.OldestAnswered(now)
	}
}

// OldestAnswered notes that the peer has acknowledged the oldest packet in flight, or has told that
// it has no memory for it.
func (p *Peer) OldestAnswered(now Time) { p.oldestAt, p.oldestResends = now, 0 }

// Resent notes that a packet is sent again: whether that is the oldest in flight, whether it is
// sent again because no answer came, and whether packets may be here that were not read yet. It
// returns whether the peer should be asked if it has restarted, for the resend before was in vain.
//
// A process that was stopped finds all timers expired, and short ones again at once, while the
// answers are still to be read: then only a resend that follows after a while is one in vain.
func (p *Peer) Resent(now Time, r *Rules, oldest, timedOut, unread bool) (askLife bool) {
	if oldest {
		p.oldestResends++
	}
	if !timedOut || p.silentResends > 0 && unread && now.Sub(p.resentAt) < r.sooner() {
		return false
	}
	p.silentResends++
	askLife = p.silentResends >= TriesMin && p.resentAt != now
	p.resentAt = now
	return askLife
}

// Asked notes that the peer is asked for a sign of life, and returns whether the question before
// was in vain.
func (p *Peer) Asked() (again bool) {
	p.questions++
	return p.questions > 1
}

// AskAnew forgets the questions in vain.
func (p *Peer) AskAnew() { p.questions = 0 }

// Answered notes that the peer has answered a question.
func (p *Peer) Answered(now Time) { p.answeredAt = now }

// AskedThere notes that the peer is asked whether its end is there still.
func (p *Peer) AskedThere(now Time) { p.doubted().thereAskedAt = now }

// ForgetThere forgets that question.
func (p *Peer) ForgetThere() {
	if p.doubts != nil {
		p.doubts.thereAskedAt = 0
	}
}

// IsThere says whether the peer has answered since AskedThere.
func (p *Peer) IsThere() bool {
	d := p.doubts
	return d != nil && d.thereAskedAt != 0 && p.answeredAt >= d.thereAskedAt
}

// MayAskLife says whether it is time to ask whether the peer has restarted.
func (p *Peer) MayAskLife(now Time) bool {
	last := p.heardAt
	if p.doubts != nil {
		last = max(last, p.doubts.lifeAskedAt)
	}
	return now.Sub(last) > lifeRound
}

// LifeNonce is the nonce of the question whether the peer has restarted, 0 for a new one: that of
// the question before while its answer may be under way.
func (p *Peer) LifeNonce() uint64 {
	if d := p.doubts; d != nil && p.heardAt < d.lifeAskedAt {
		return d.lifeNonce
	}
	return 0
}

// AskedLife notes that the peer is asked whether it has restarted, by a nonce.
func (p *Peer) AskedLife(now Time, nonce uint64) {
	d := p.doubted()
	d.lifeAskedAt, d.lifeNonce = now, nonce
}

// AnswersLife says whether a nonce is that of the question whether the peer has restarted, and
// nothing of the peer has come since it was asked.
func (p *Peer) AnswersLife(nonce uint64) bool {
	d := p.doubts
	return d != nil && d.lifeNonce != 0 && nonce == d.lifeNonce && p.heardAt < d.lifeAskedAt
}

// Quiet is the time since the peer's latest packet.
func (p *Peer) Quiet(now Time) time.Duration { return now.Sub(p.heardAt) }

// HeardAfter says whether a packet of the peer has come after an instant.
func (p *Peer) HeardAfter(t Time) bool { return p.heardAt > t }

// AckedAt is when the peer has acknowledged something last.
func (p *Peer) AckedAt() Time { return p.ackedAt }

// Unanswered is for how long the peer has neither answered a question nor acknowledged anything.
func (p *Peer) Unanswered(now Time) time.Duration {
	return now.Sub(max(p.answeredAt, p.ackedAt))
}

// DeadAfter is for how long the peer may owe an answer.
func (p *Peer) DeadAfter(r *Rules) time.Duration { return r.PeerTimeout + p.away }

// Press has the peer asked for a sign of life as soon as it is silent, whatever KeepAlive says.
func (p *Peer) Press() { p.pressed = true }

// Pressed says whether it is.
func (p *Peer) Pressed() bool { return p.pressed }

// Debt is what a peer owes.
type Debt uint8

// The debts.
const (
	Ack     Debt = iota // of the oldest packet in flight, which is sent again meanwhile
	Confirm             // of what was sent over a link without resends, for which it is asked
	Sign                // of life, for which it is asked
)

// String returns what is owed.
func (d Debt) String() string {
	switch d {
	case Ack:
		return "acknowledgement"
	case Confirm:
		return "confirmation"
	case Sign:
		return "sign of life"
	}
	return "unknown"
}

// Verdict is the judgement of a peer.
type Verdict struct {
	Dead  bool
	Owed  time.Duration // for how long what the peer owes has been due
	Tries int           // how often it was tried in vain to get it
	// Within is the time in which it is to be tried again: so a dead peer is noticed when its time is
	// up, and not a back-off later.
	Within  time.Duration
	debt    Debt
	quiet   time.Duration // for how long nothing of the peer has come
	silent  bool          // by no channel, for as long as it may owe an answer
	heardBy uint8         // the channel of the latest packet
}

// Why is the human-readable reason for a peer's death: the channels without an answer, and the
// unanswered tries. Whatever is sent again takes the data channel.
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

// Verdict says whether the peer is dead, judged by a debt. Grace is for how much longer no peer is
// dead: what it has said may be here and not read yet.
//
// The acknowledgement of the oldest packet is owed whatever else is heard: a path may carry small
// packets alone, and answers to nothing else.
func (p *Peer) Verdict(now Time, r *Rules, debt Debt, grace time.Duration) Verdict {
	v := Verdict{Tries: int(p.questions), debt: debt, quiet: p.Quiet(now), heardBy: p.heardBy}
	after, enough, again := p.DeadAfter(r), TriesMin, r.sooner()
	switch debt {
	case Ack:
		v.Owed = now.Sub(max(p.oldestAt, p.owesAt))
		if v.silent = v.quiet >= after; !v.silent {
			v.Tries, enough = int(p.oldestResends), oldestTriesMin
		} else {
			v.Tries, again = int(p.silentResends), time.Millisecond
		}
	case Confirm:
		v.Owed = now.Sub(max(p.heardAt, p.owesAt))
	case Sign:
		v.Owed = v.quiet
	}
	v.Dead = v.Owed >= after+grace && v.Tries >= enough
	if v.Within = after - v.Owed; v.Within <= 0 {
		v.Within = again
	}
	return v
}

// Next is when the question after the present one is due: after d, or when the peer's time is over.
// The questions that are still missing then follow soon.
func (v *Verdict) Next(d time.Duration) time.Duration {
	return max(min(d, v.Within), time.Millisecond)
}

// Forever is the time until a sign of life is due of which none ever is.
const Forever = time.Duration(math.MaxInt64)

// SignDue is the time until the peer has to be asked for a sign of life: 0 for now.
func (p *Peer) SignDue(now Time, r *Rules) time.Duration {
	quiet := p.Quiet(now)
	p.pressed = p.pressed && quiet >= r.PressAfter()
	switch {
	case p.pressed:
		return 0
	case r.KeepAlive < 0:
		return Forever
	}
	return max(r.KeepAlive-quiet, 0)
}

// Check proves that nothing has happened later than now.
func (p *Peer) Check(now Time) error {
	if max(p.heardAt, p.owesAt, p.ackedAt, p.oldestAt, p.resentAt, p.answeredAt) > now {
		return fmt.Errorf("heard %d, waits since %d, got on %d, its oldest packet is of %d and resent "+
			"%d, it answered %d, and it is %d", p.heardAt, p.owesAt, p.ackedAt, p.oldestAt, p.resentAt,
			p.answeredAt, now)
	}
	return p.channels.check(now)
}
