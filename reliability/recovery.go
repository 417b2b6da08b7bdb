package reliability

import (
	"fmt"
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Channel is the way that a packet took. Packets of different channels overtake each other, so that
// only those of one say of each other that they are lost.
type Channel uint8

// The channels.
const (
	Command Channel = iota
	Data
	channels
)

// Sack is what a selective acknowledgement adds to the cumulative one.
type Sack struct {
	Words  []uint64      // bit i of word w: packet ack+2+64w+i has arrived
	Last   seq.Num       // the packet that arrived last
	Delay  time.Duration // how long ago
	Unread time.Duration // for how long it, and the ACK, may have waited for processes to look
	Copies uint32        // packets that had arrived before, modulo 2^32
}

// recovery is what the adaptive profile keeps for a sender.
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
type recovery struct {
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
	waits     bool  // in this round something had to wait until the window was open
	holes     bool  // a packet of the window has arrived before an older one, or copied is set
	sacked    int32 // packets of the window that have arrived
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

	// sackAhead is how far from the ack the first bit of a selective acknowledgement is.
	sackAhead = 2

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

// Adapt gives a sender, fresh from Init, the adaptive rules. The peer may hold an ACK back for
// peerDelay; selective says whether its ACKs are selective.
func (s *Sender) Adapt(peerDelay time.Duration, selective bool) {
	s.rec = &recovery{
		lossAt: mono.Never, peerDelay: peerDelay, selective: selective, tokens: tokensFirst,
		roundEnd: s.next, newest: s.next - 1, limit: s.segs.rules.ResendTimeoutMax,
		sentAt: [channels]mono.Time{longAgo, longAgo}, ackedAt: longAgo, since: longAgo,
	}
	s.rec.fixed = s.segs.rules.Congestion == CongestionFixed
	s.rec.cong.init(&s.segs.rules)
	s.rec.setWait(&s.segs.rules)
	s.settle()
}

// pipe is the number of packets on their way.
func (r *recovery) pipe(s *Sender) int32 { return s.next.Sub(s.oldest) - r.sacked - r.gone }

// room is the number of packets, new ones or such to be sent again, that the congestion window is
// open to.
func (r *recovery) room(s *Sender) int32 {
	if r.fixed {
		return int32(s.window)
	}
	return r.cong.window - r.pipe(s) - (r.gone - r.marked)
}

// PostTo notes that a segment, free or queued, was sent as number n of a Sender on a channel. An
// answer is waited for at most limit.
func (s *Segments) PostTo(now mono.Time, t Token, to *Sender, n seq.Num, c Channel,
	limit time.Duration,
) {
	s.segs[t].post(now, to, n, c)
	s.posted++
	to.rec.sent(to, now, c, limit)
}

// PostRun is PostTo for segments sent at once under consecutive numbers from n on.
func (s *Segments) PostRun(now mono.Time, run []Token, to *Sender, n seq.Num, c Channel,
	limit time.Duration,
) {
	for _, t := range run {
		s.segs[t].post(now, to, n, c)
		n++
	}
	s.posted += len(run)
	to.rec.sent(to, now, c, limit)
}

func (p *segment) post(now mono.Time, to *Sender, n seq.Num, c Channel) {
	if p.state > Queued {
		panic("reliability: segment posted twice")
	}
	p.owner, p.seq, p.resends = to.number, n, 0
	p.channel, p.lost = c, false
	p.state, p.postedAt = Posted, now
}

// Resent notes that a segment which PopResend gave out was sent again, on the data channel.
func (s *Segments) Resent(now mono.Time, t Token, to *Sender, limit time.Duration) {
	p := &s.segs[t]
	if p.state != Resend || p.next != uint32(t) {
		panic("reliability: segment reposted that was not popped")
	}
	p.resends = min(p.resends, 254) + 1
	p.channel, p.state, p.postedAt = Data, Posted, now
	s.posted++
	r := to.rec
	r.gone--
	r.again[0]++
	r.pacer.again++
	r.sentAt[Data], r.limit = now, limit
	r.run(to, now)
	to.settle()
}

// sent notes the time, and has the timer run. If it runs for what was sent before, it ends early
// enough: another packet only makes the time-out later.
func (r *recovery) sent(s *Sender, now mono.Time, c Channel, limit time.Duration) {
	r.sentAt[c] = now
	if r.hold != 0 && r.since != longAgo && limit == r.limit && !r.pacer.short(s) {
		return
	}
	if r.backoff == 0 {
		r.limit = limit
	}
	r.run(s, now)
}

// run has the timer run.
func (r *recovery) run(s *Sender, now mono.Time) {
	if r.since == longAgo {
		r.since = now
	}
	due := r.due()
	if r.pacer.short(s) {
		due = due.Min(r.pacer.due)
	}
	if r.hold == 0 || due < r.holdAt {
		r.wake(s, now, due)
	}
}

// due is when the lack of an answer becomes a time-out. The first one follows the latest packet:
// its ACK will tell of all. But not for long; the others follow each other.
func (r *recovery) due() mono.Time {
	at := r.ackedAt.Add(r.paths[r.latest].srtt/2 + r.peerDelay) // while it gets on, more may follow
	longest := max(r.wait[Command], r.wait[Data])
	if r.backoff > 0 {
		return max(at, r.since.Add(max(min(longest, r.limit), 0)))
	}
	last := max(at, r.since.Add(max(min(4*longest, r.limit), 0)))
	for c, sent := range r.sentAt {
		at = max(at, sent.Add(max(min(r.wait[c], r.limit), 0)))
	}
	return min(at, last)
}

// setWait finds out how long to wait for an answer. A channel that was not measured yet may be much
// slower than the other one.
func (r *recovery) setWait(rules *Rules) {
	for c := range channels {
		p, times := &r.paths[c], time.Duration(1)
		if p.srtt == 0 {
			p, times = &r.paths[1-c], 2
		}
		var wait time.Duration
		switch {
		case p.srtt == 0:
			wait = rules.ResendTimeout
		case r.backoff == 0:
			r.wait[c] = max(times*p.probe()+r.peerDelay, rules.ProbeTimeoutMin)
			continue
		default:
			wait = max(times*p.wait()+r.peerDelay, rules.ResendTimeoutMin)
		}
		// The maximum is shifted for the comparison, because the longer time might not fit.
		if wait > rules.ResendTimeoutMax>>r.backoff {
			wait = rules.ResendTimeoutMax
		} else {
			wait <<= r.backoff
		}
		r.wait[c] = wait
	}
}

// wake has the timer run out at the instant at, or before.
func (r *recovery) wake(s *Sender, now, at mono.Time) {
	if r.hold != 0 {
		if r.holdAt <= at {
			return
		}
		s.segs.clocks.Checkout(r.hold)
	}
	room, err := s.segs.clocks.Checkin(now, at.Sub(now), s)
	if err != nil {
		// As many rooms as peers, and one timer each.
		panic("reliability: no room for a peer's timer: " + err.Error())
	}
	r.hold, r.holdAt = room, at
}

// ExpireNext deals with a sender whose timer has run out, and returns it; nil if there is none. Its
// window may be open again. Call it until it returns nil.
func (s *Segments) ExpireNext(now mono.Time) *Sender {
	if s.clocks == nil {
		return nil
	}
	to, _, ok := s.clocks.Evict(now)
	if !ok {
		return nil
	}
	r := to.rec
	r.hold, r.holdAt = 0, mono.Never
	if to.oldest == to.next {
		to.pace(now)
		to.settle()
		return to
	}
	if r.lossAt <= now {
		to.findLost(now)
	}
	if due := r.due(); due <= now {
		to.timeout(now)
	}
	r.wake(to, now, max(r.due().Min(r.lossAt), now.Add(time.Microsecond)))
	to.pace(now)
	to.settle()
	return to
}

// timeout sends the oldest packet again that is not to be sent again anyway.
func (s *Sender) timeout(now mono.Time) {
	r, cause := s.rec, CauseTimeout
	r.since = now
	if r.backoff == 0 {
		cause = CauseProbe
	}
	if r.backoff < backoffMax {
		r.backoff++
	}
	r.setWait(&s.segs.rules)
	if r.backoff == backoffRestart {
		r.cong.restart(&s.segs.rules)
	}
	for n := s.oldest; n != s.next; n++ {
		if t := s.at(n); t != noToken {
			s.sendAgain(t, cause)
			return
		}
	}
}

// sendAgain puts a packet in flight on the resend list, if it is not there already.
func (s *Sender) sendAgain(t Token, cause Cause) {
	r, p := s.rec, s.segment(t)
	if p.state != Posted {
		return
	}
	if p.lost {
		s.unmark(p)
	} else {
		r.gone++
	}
	r.tokens = max(r.tokens-tokenUnits, 0)
	s.segs.posted--
	s.segs.enlist(t, cause)
}

// unmark takes a segment off those that wait for the budget.
func (s *Sender) unmark(p *segment) {
	p.lost = false
	s.rec.marked--
}

// Refuse has a packet sent again because the peer has refused it.
func (s *Sender) Refuse(t Token) {
	if s.rec == nil {
		s.segs.ResendNow(t)
		return
	}
	s.sendAgain(t, CauseRefused)
	s.settle()
}

// abandon stops the timer of a sender whose peer is gone.
func (s *Sender) abandon() {
	r := s.rec
	if r == nil {
		return
	}
	if r.hold != 0 {
		s.segs.clocks.Checkout(r.hold)
	}
	r.hold, r.sacked, r.gone, r.marked = 0, 0, 0, 0
}

// CheckRecovery reports the first broken invariant of what the adaptive profile keeps.
func (s *Sender) CheckRecovery() error {
	r := s.rec
	if r == nil {
		return nil
	}
	var sacked, gone, marked int32
	waits := false
	for n := s.oldest; n != s.next; n++ {
		t := s.at(n)
		switch {
		case t == noToken:
			sacked++
		case s.segment(t).state == Resend:
			gone++
		case s.segment(t).state == Posted && s.segment(t).lost:
			gone++
			marked++
		case s.segment(t).state == Posted:
			waits = true
		}
	}
	switch {
	case sacked != r.sacked || gone != r.gone || marked != r.marked:
		return fmt.Errorf("reliability: %d packets arrived early, %d lost, %d marked: counted %d, %d, %d",
			sacked, gone, marked, r.sacked, r.gone, r.marked)
	case s.oldest != s.next && s.at(s.oldest) == noToken:
		return fmt.Errorf("reliability: oldest packet %d has arrived", s.oldest)
	case waits && r.hold == 0:
		return fmt.Errorf("reliability: packets in flight without a timer")
	case waits && r.holdAt > r.due().Add(time.Microsecond):
		return fmt.Errorf("reliability: the timer ends at %d, the time is up at %d", r.holdAt, r.due())
	case waits && r.pacer.short(s) && r.holdAt > r.pacer.due.Add(time.Microsecond):
		return fmt.Errorf("reliability: the timer ends at %d, others may go at %d", r.holdAt, r.pacer.due)
	case r.cong.window < min(windowLeast, int32(s.window)) || r.tokens < 0:
		return fmt.Errorf("reliability: window of %d packets, %d tokens", r.cong.window, r.tokens)
	}
	if r.hold != 0 {
		if who, ok := s.segs.clocks.Knock(r.hold); !ok || who != s {
			return fmt.Errorf("reliability: the timer of sender %d is not its own", s.number)
		}
	}
	return nil
}
