package reliability

import (
	"fmt"
	"math/bits"
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
	path            path
	cong            congestion
	rack            [channels]delivered
	hold            hotel.Room    // of the timer; 0: it does not run
	holdAt          mono.Time     // when that ends
	lossAt          mono.Time     // when packets may be found lost without further news; Never: none
	sentAt, ackedAt mono.Time     // when something was sent, or acknowledged, last
	wait            time.Duration // for an answer, before the oldest packet is sent again
	limit           time.Duration // most that wait may be
	peerDelay       time.Duration // how long the peer may hold an ACK back
	late            time.Duration // by how much packets have come late that were not lost
	patience        uint8         // doublings of the while, after copies that were sent in vain
	backoff         uint8         // time-outs since anything was acknowledged
	selective       bool
	tried           [channels]bool // something has arrived by this channel
	untried         bool           // nothing has by that of the latest packet
	fixed           bool           // there is no congestion window
	news            bool           // a packet has arrived out of turn since losses were looked for
	holes           bool           // a packet of the window has arrived before an older one
	copies          uint32         // what the peer has counted
	sacked          int32          // packets of the window that have arrived
	gone            int32          // packets of the window that are taken for lost, and not sent again yet
	marked          int32          // of these, those that are not on the resend list
	tokens          int32          // packets that may be sent again, times tokenUnits
	vain, vainSeen  uint32         // packets sent again in vain; those known when this round began
	calm            uint8          // rounds since there was one
	again           [2]int32       // packets sent again in this round and in the one before, and not known to be in vain
	roundEnd        seq.Num        // when this has arrived, a round trip is over
	newest          seq.Num        // latest number that has arrived
}

// delivered is the packet of a channel that was sent last of all that have arrived.
type delivered struct {
	at  mono.Time
	seq seq.Num
	rtt time.Duration
}

// The resend budget: an eighth of what is delivered, and in each round trip a few packets and a
// quarter of the window; at most a window is saved up, which may be lost at once. A path that loses
// more than that is not helped by copies.
const (
	// unreadLeast is how long a process has not looked that was not just busy: it had no processor. No
	// network is to blame for that, as Swift tells the delay of hosts from that of the fabric.
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

// Adapt gives a sender, fresh from Init, the adaptive rules. The peer may hold an ACK back for
// peerDelay; selective says whether its ACKs are selective.
func (s *Sender) Adapt(g *Segments, peerDelay time.Duration, selective bool) {
	s.rec = &recovery{
		lossAt: mono.Never, peerDelay: peerDelay, selective: selective, tokens: tokensFirst,
		roundEnd: s.next, newest: s.next - 1, limit: g.rules.ResendTimeoutMax,
	}
	s.rec.fixed = g.rules.Congestion == CongestionFixed
	s.rec.cong.init(&g.rules)
	s.rec.setWait(&g.rules)
	s.settle()
}

// pipe is the number of packets on their way.
func (r *recovery) pipe(s *Sender) int32 { return s.next.Sub(s.oldest) - r.sacked - r.gone }

// PostTo notes that a segment, free or queued, was sent as number n of s on a channel. An answer is
// waited for at most limit. With vague, the time at which it was sent is not known well enough to
// measure a round trip.
func (g *Segments) PostTo(now mono.Time, t Token, s *Sender, n seq.Num, c Channel, vague bool,
	limit time.Duration,
) {
	p := &g.segs[t]
	if p.state > Queued {
		panic("reliability: segment posted twice")
	}
	p.owner, p.seq, p.resends = s.number, n, 0
	p.channel, p.vague, p.lost = c, vague, false
	p.state, p.postedAt = Posted, now
	g.posted++
	s.rec.untried = !s.rec.tried[c]
	s.rec.sent(g, s, now, limit)
}

// Resent notes that a segment which PopResend gave out was sent again, on the data channel.
func (g *Segments) Resent(now mono.Time, t Token, s *Sender, limit time.Duration) {
	p := &g.segs[t]
	if p.state != Resend || p.next != uint32(t) {
		panic("reliability: segment reposted that was not popped")
	}
	p.resends = min(p.resends, 254) + 1
	p.channel, p.state, p.postedAt = Data, Posted, now
	g.posted++
	r := s.rec
	r.gone--
	r.again[0]++
	r.sent(g, s, now, limit)
	s.settle()
}

// sent notes the time, and has the timer run.
func (r *recovery) sent(g *Segments, s *Sender, now mono.Time, limit time.Duration) {
	r.sentAt, r.limit = now, limit
	if due := r.due(); r.hold == 0 || due < r.holdAt {
		r.wake(g, s, now, due)
	}
}

// due is when the lack of an answer becomes a time-out.
func (r *recovery) due() mono.Time {
	wait := r.wait
	if r.untried {
		wait *= 2 // the other channel may be the faster one
	}
	at := r.sentAt.Add(max(min(wait, r.limit), 0))
	return max(at, r.ackedAt.Add(r.path.srtt/2+r.peerDelay)) // while it gets on, others may follow
}

// setWait finds out how long to wait for an answer.
func (r *recovery) setWait(rules *Rules) {
	switch wait := rules.ResendTimeout; {
	case r.path.srtt == 0:
		r.wait = wait
	case r.backoff == 0:
		r.wait = max(r.path.probe()+r.peerDelay, rules.ProbeTimeoutMin)
		return
	default:
		r.wait = max(r.path.wait()+r.peerDelay, rules.ResendTimeoutMin)
	}
	// The maximum is shifted for the comparison, because the longer time might not fit.
	if r.wait > rules.ResendTimeoutMax>>r.backoff {
		r.wait = rules.ResendTimeoutMax
	} else {
		r.wait <<= r.backoff
	}
}

// wake has the timer run out at the instant at, or before.
func (r *recovery) wake(g *Segments, s *Sender, now, at mono.Time) {
	if r.hold != 0 {
		if r.holdAt <= at {
			return
		}
		g.clocks.Checkout(r.hold)
	}
	room, err := g.clocks.Checkin(now, at.Sub(now), s)
	if err != nil {
		// As many rooms as peers, and one timer each.
		panic("reliability: no room for a peer's timer: " + err.Error())
	}
	r.hold, r.holdAt = room, at
}

// ExpireNext deals with a sender whose timer has run out, and returns it; nil if there is none. Its
// window may be open again. Call it until it returns nil.
func (g *Segments) ExpireNext(now mono.Time) *Sender {
	if g.clocks == nil {
		return nil
	}
	s, _, ok := g.clocks.Evict(now)
	if !ok {
		return nil
	}
	r := s.rec
	r.hold, r.holdAt = 0, mono.Never
	if s.oldest == s.next {
		return s
	}
	if r.lossAt <= now {
		s.findLost(g, now)
	}
	if due := r.due(); due <= now {
		s.timeout(g, now)
	}
	r.wake(g, s, now, max(r.due().Min(r.lossAt), now.Add(time.Microsecond)))
	s.settle()
	return s
}

// timeout sends the oldest packet again that is not to be sent again anyway.
func (s *Sender) timeout(g *Segments, now mono.Time) {
	r := s.rec
	r.sentAt = now
	if r.backoff < backoffMax {
		r.backoff++
	}
	r.setWait(&g.rules)
	if r.backoff == backoffRestart {
		r.cong.restart(&g.rules)
	}
	for n := s.oldest; n != s.next; n++ {
		if t := s.at(n); t != noToken {
			s.sendAgain(g, t, CauseTimeout)
			return
		}
	}
}

// sendAgain puts a packet in flight on the resend list, if it is not there already.
func (s *Sender) sendAgain(g *Segments, t Token, cause Cause) {
	r, p := s.rec, &g.segs[t]
	if p.state != Posted {
		return
	}
	if p.lost {
		s.unmark(p)
	} else {
		r.gone++
	}
	r.tokens = max(r.tokens-tokenUnits, 0)
	g.posted--
	g.enlist(t, cause)
}

// unmark takes a segment off those that wait for the budget.
func (s *Sender) unmark(p *segment) {
	p.lost = false
	s.rec.marked--
}

// Refuse has a packet sent again because the peer has refused it.
func (s *Sender) Refuse(g *Segments, t Token) {
	if s.rec == nil {
		g.ResendNow(t)
		return
	}
	s.sendAgain(g, t, CauseRefused)
	s.settle()
}

// arrived frees the segment of number n, which the peer has.
func (s *Sender) arrived(g *Segments, now mono.Time, t Token) {
	r, p := s.rec, &g.segs[t]
	if p.state == Resend || p.lost {
		r.gone--
		if p.lost {
			s.unmark(p)
		}
	}
	r.tried[p.channel] = true
	if p.resends == 0 && !r.holes {
		// The common case: in order, for the first time.
		g.release(t, p)
		return
	}
	took := now.Sub(p.postedAt)
	c := &r.rack[p.channel]
	later := c.at > p.postedAt || c.at == p.postedAt && p.seq.Before(c.seq)
	switch {
	case p.resends > 0 && took < r.path.base: // an earlier copy arrived
	case later:
		if p.resends == 0 && c.rtt != 0 { // it was not lost, only late
			r.late = max(r.late, took-c.rtt)
		}
	default:
		*c = delivered{at: p.postedAt, seq: p.seq, rtt: took}
		r.news = true
	}
	g.release(t, p)
}

// while is how long a packet may be later than one that was sent after it, before it is lost.
func (r *recovery) while() time.Duration {
	w := max(r.path.base/4, r.late+r.late/4) << r.patience
	return min(w, r.path.wait())
}

// findLost marks the packets that are lost by now, and has as many sent again as the budget allows.
func (s *Sender) findLost(g *Segments, now mono.Time) {
	r := s.rec
	r.news, r.lossAt = false, mono.Never
	grace := r.while()
	across := r.path.wait() + grace
	last := max(r.rack[Command].at, r.rack[Data].at)
	for n := s.oldest; n != s.next; n++ {
		t := s.at(n)
		if t == noToken || g.segs[t].state != Posted {
			continue
		}
		p := &g.segs[t]
		if !p.lost {
			c := &r.rack[p.channel]
			var at mono.Time
			switch {
			case c.at > p.postedAt || c.at == p.postedAt && p.seq.Before(c.seq) && c.rtt != 0:
				at = p.postedAt.Add(max(c.rtt, r.path.base) + grace)
			case last > p.postedAt.Add(across):
				at = now
			case p.postedAt >= last && p.resends == 0 && r.newest.Before(n):
				return // neither this one nor any behind it was sent before what has arrived
			default:
				continue
			}
			if at > now {
				r.lossAt = r.lossAt.Min(at)
				continue
			}
			p.lost = true
			r.gone++
			r.marked++
			r.cong.lost++
		}
		if r.tokens >= tokenUnits {
			s.sendAgain(g, t, CauseLost)
		}
	}
}

// onAck processes an acknowledgement under the adaptive rules; it is plausible and not old.
func (s *Sender) onAck(g *Segments, now mono.Time, ack seq.Num, sack *Sack, done []Token) []Token {
	r := s.rec
	before := len(done)
	if r.pipe(s) >= r.cong.window {
		r.cong.limited = true
	}
	r.measure(g, s, now, ack, sack)
	if sack != nil && len(sack.Words) > 0 {
		r.holes = true
	}
	for ; s.oldest != ack+1; s.oldest++ {
		if t := s.at(s.oldest); t != noToken {
			s.arrived(g, now, t)
			done = append(done, t)
		} else {
			r.sacked--
		}
	}
	for ; s.oldest != s.next && s.at(s.oldest) == noToken; s.oldest++ {
		r.sacked-- // a peer that contradicts itself
	}
	r.newest = r.newest.Max(ack)
	if sack != nil {
		done = s.onWords(g, now, ack, sack.Words, done)
		r.onCopies(sack.Copies)
	}
	if n := int32(len(done) - before); n > 0 {
		r.ackedAt, r.backoff = now, 0
		r.setWait(&g.rules)
		if due := r.due(); s.oldest != s.next && due < r.holdAt {
			r.wake(g, s, now, due)
		}
		r.cong.grow(n, s.window)
		r.tokens = min(r.tokens+n, tokensFirst+tokenUnits*r.cong.window)
		if !r.newest.Before(r.roundEnd) {
			r.roundEnd = s.next
			r.endRound(g, s)
		}
	}
	if r.news || r.marked > 0 || r.lossAt <= now {
		s.findLost(g, now)
		if r.lossAt != mono.Never {
			r.wake(g, s, now, r.lossAt)
		}
	}
	r.holes = r.sacked > 0 || r.gone > 0
	s.settle()
	return done
}

// measure takes the round trip of the packet that arrived last, if this is its first
// acknowledgement and there was only one copy of it (Karn's rule).
func (r *recovery) measure(g *Segments, s *Sender, now mono.Time, ack seq.Num, sack *Sack) {
	n, delay := ack, time.Duration(0)
	if sack != nil {
		n, delay = sack.Last, sack.Delay
	}
	t, ok := s.Token(n)
	if !ok {
		return
	}
	p := &g.segs[t]
	if p.state != Posted || p.resends > 0 || p.vague {
		return
	}
	rtt := now.Sub(p.postedAt)
	if delay < rtt {
		rtt -= delay
	}
	r.path.sample(now, rtt)
	if sack != nil && sack.Unread > unreadLeast {
		rtt = max(rtt-sack.Unread, min(rtt, r.path.base)) // what the network can have taken at least
	}
	r.cong.sample(rtt, r.path.base, &g.rules)
}

// onWords frees the packets that arrived beyond the first gap.
func (s *Sender) onWords(g *Segments, now mono.Time, ack seq.Num, words []uint64,
	done []Token,
) []Token {
	first := ack + sackAhead
	for _, word := range words {
		for ; word != 0; word &= word - 1 {
			n := first + seq.Num(bits.TrailingZeros64(word))
			i := uint32(n) & uint32(len(s.ring)-1)
			t := s.ring[i]
			if t == noToken || n.Before(s.oldest) {
				continue
			}
			s.arrived(g, now, t)
			done = append(done, t)
			s.ring[i] = noToken
			s.rec.sacked++
			s.rec.newest = s.rec.newest.Max(n)
		}
		first += 64
	}
	return done
}

// onCopies counts the packets that were sent again in vain: the peer tells how many came twice.
// What the network has copied counts too, as long as something was sent again.
func (r *recovery) onCopies(copies uint32) {
	d := int32(copies - r.copies)
	if d <= 0 {
		return // an older ACK
	}
	r.copies = copies
	vain := min(d, r.again[0]+r.again[1])
	r.vain += uint32(vain)
	for i := range r.again {
		n := min(vain, r.again[i])
		r.again[i] -= n
		vain -= n
	}
}

// endRound takes the decisions that fall once in a round trip.
func (r *recovery) endRound(g *Segments, s *Sender) {
	r.cong.endRound(&r.path, &g.rules, int32(s.window))
	r.tokens += tokensRound + tokenUnits*r.cong.window/4
	r.again[0], r.again[1] = 0, r.again[0]
	if r.vain != r.vainSeen {
		r.vainSeen = r.vain
		r.patience = min(r.patience+1, patienceMax)
		r.calm = 0
	} else if r.calm++; r.calm >= calmRounds {
		r.calm = 0
		r.late -= r.late / 8
		if r.patience > 0 {
			r.patience--
		}
	}
}

// sackOK says whether a selective acknowledgement speaks of nothing but packets sent.
func (s *Sender) sackOK(ack seq.Num, sack *Sack) bool {
	if !sack.Last.Before(s.next) {
		return false
	}
	n := len(sack.Words)
	if n == 0 {
		return true
	}
	top := ack + sackAhead + seq.Num(64*n-1-bits.LeadingZeros64(sack.Words[n-1]))
	return ack.Before(s.oldest-1) || top.Before(s.next)
}

// OnSack is OnAck for an acknowledgement that is selective. A Sender that was not given to Adapt
// heeds its cumulative part alone.
func (s *Sender) OnSack(g *Segments, now mono.Time, ack seq.Num, credit uint16, sack *Sack,
	done []Token,
) ([]Token, AckVerdict) {
	if !s.Plausible(ack) || !s.sackOK(ack, sack) {
		return done, AckBogus
	}
	if s.rec == nil {
		done, verdict, _ := s.OnAck(g, now, ack, credit, true, done)
		return done, verdict
	}
	if ack.Sub(s.oldest)+1 < 0 {
		return done, AckOld
	}
	s.limit = s.limit.Max(ack.Add(1 + max(1, uint32(credit))))
	before := len(done)
	done = s.onAck(g, now, ack, sack, done)
	switch {
	case len(done) > before:
		return done, AckNew
	case len(sack.Words) > 0:
		return done, AckDuplicate
	}
	return done, AckIdle
}

// onPlainAck processes an acknowledgement without a selective part under the adaptive rules. From a
// peer that knows no other, the repetition of one says that there is a gap: as in the usnic
// profile, but never about a packet that is out for less than a round trip.
func (s *Sender) onPlainAck(g *Segments, now mono.Time, ack seq.Num, idle bool,
	done []Token,
) (_ []Token, verdict AckVerdict, resend bool) {
	before := len(done)
	done = s.onAck(g, now, ack, nil, done)
	switch {
	case len(done) > before || ack+1 != s.oldest:
		return done, AckNew, false
	case s.oldest == s.next || idle || s.rec.selective:
		return done, AckIdle, false
	}
	t := s.at(s.oldest)
	p := &g.segs[t]
	if p.state != Posted || now.Sub(p.postedAt) < s.rec.path.base {
		return done, AckDuplicate, false
	}
	s.sendAgain(g, t, CauseDupAck)
	s.rec.cong.lost++
	s.settle()
	return done, AckDuplicate, true
}

// abandon stops the timer of a sender whose peer is gone.
func (s *Sender) abandon(g *Segments) {
	r := s.rec
	if r == nil {
		return
	}
	if r.hold != 0 {
		g.clocks.Checkout(r.hold)
	}
	r.hold, r.sacked, r.gone, r.marked = 0, 0, 0, 0
}

// CheckRecovery reports the first broken invariant of what the adaptive profile keeps.
func (s *Sender) CheckRecovery(g *Segments) error {
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
		case g.segs[t].state == Resend:
			gone++
		case g.segs[t].state == Posted && g.segs[t].lost:
			gone++
			marked++
		case g.segs[t].state == Posted:
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
	case r.cong.window < windowLeast || r.tokens < 0:
		return fmt.Errorf("reliability: window of %d packets, %d tokens", r.cong.window, r.tokens)
	}
	if r.hold != 0 {
		if who, ok := g.clocks.Knock(r.hold); !ok || who != s {
			return fmt.Errorf("reliability: the timer of sender %d is not its own", s.number)
		}
	}
	return nil
}
