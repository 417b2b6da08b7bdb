package reliability

import (
	"math/bits"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// What an acknowledgement means under the adaptive rules: what has arrived, what is lost.

// arrived frees the segment of number n, which the peer has.
func (s *Sender) arrived(now mono.Time, t Token) {
	r, p := s.rec, s.segment(t)
	if p.state == Resend || p.lost {
		r.gone--
		if p.lost {
			s.unmark(p)
		}
	}
	if p.resends == 0 && !r.holes { // in order, for the first time
		s.segs.release(t, p)
		return
	}
	took := now.Sub(p.postedAt)
	c := &r.rack[p.channel]
	later := c.at > p.postedAt || c.at == p.postedAt && p.seq.Before(c.seq)
	copied := p.resends > 0 && r.selective
	switch {
	case r.whole: // the first of several, none missing: this was not lost, the copy is not here yet
	case p.resends > 0 && took < r.least(p.channel, &s.segs.rules) && !r.paths[p.channel].stale(now):
		// An earlier copy arrived.
	case later:
		if p.resends == 0 && c.rtt != 0 && r.selective { // it was not lost, only late
			r.late = max(r.late, took-c.rtt)
		}
	default:
		if path := &r.paths[p.channel]; !r.selective && path.srtt != 0 {
			took = min(took, path.wait()) // it may have been there for long
		}
		if copied {
			r.onCopy(delivered{at: p.postedAt, seq: p.seq, rtt: took, seenAt: now})
			break
		}
		*c = delivered{at: p.postedAt, seq: p.seq, rtt: took, seenAt: now}
		if p.channel == Data || p.postedAt > r.copied.at {
			r.copied = delivered{}
		}
		r.news = true
	}
	s.segs.release(t, p)
}

// onCopy notes that a packet which was sent again has arrived, perhaps the copy. If the peer stood
// still it may as well have been an earlier one, and all that was sent before the copy is still to
// be read there. Then other packets follow, or have come with this one, that were sent only once:
// these say more, and this is forgotten.
func (r *recovery) onCopy(d delivered) {
	if r.rack[Data].seenAt == d.seenAt || r.copied.at > d.at {
		return
	}
	r.copied = d
	r.news = true
}

// proves says whether a packet of the same channel was sent before the one that has arrived.
func (d *delivered) proves(p *segment) bool {
	return d.at > p.postedAt || d.at == p.postedAt && p.seq.Before(d.seq) && d.rtt != 0
}

// least is less than any answer to a packet of a channel takes: the least round trip that was
// measured, of the other channel if need be, or a guess.
func (r *recovery) least(c Channel, rules *Rules) time.Duration {
	if base := r.paths[c].base; base != 0 {
		return base
	}
	if base := r.paths[1-c].base; base != 0 {
		return base
	}
	return rules.ResendTimeoutMin
}

// while is how long a packet of a channel may be later than one that was sent after it: then it is
// lost.
func (r *recovery) while(c Channel) time.Duration {
	p := &r.paths[c]
	return min(max(p.base/4, r.late+r.late/4)<<r.patience, p.wait())
}

// findLost marks the packets that are lost by now, and has them sent again.
func (s *Sender) findLost(now mono.Time) {
	r := s.rec
	known := r.marked
	s.markLost(now)
	found := r.marked - known
	s.sendLost()
	if r.tokens < tokenUnits {
		s.segs.counts.Throttled += uint64(max(min(found, r.marked), 0))
	}
}

func (s *Sender) markLost(now mono.Time) {
	r := s.rec
	r.news, r.lossAt = false, mono.Never
	grace := [channels]time.Duration{r.while(Command), r.while(Data)}
	across := max(r.paths[Command].wait()+grace[Command], r.paths[Data].wait()+grace[Data],
		s.segs.rules.ProbeTimeoutMin)
	last := max(r.rack[Command].at, r.rack[Data].at)
	proven := r.copied.seenAt.Add(r.peerDelay + delayNoise) // what was sent before would have followed
	for n := s.oldest; n != s.next; n++ {
		t := s.at(n)
		if t == noToken || s.segment(t).state != Posted || s.segment(t).lost {
			continue
		}
		p := s.segment(t)
		base := r.paths[p.channel].base
		c := &r.rack[p.channel]
		var at mono.Time
		switch {
		case c.proves(p):
			at = p.postedAt.Add(max(c.rtt, base) + grace[p.channel])
		case last > p.postedAt.Add(across):
			at = now
		case p.channel == Data && r.copied.proves(p):
			at = max(p.postedAt.Add(max(r.copied.rtt, base)+grace[Data]), proven)
		case r.copied.at > p.postedAt.Add(across):
			at = proven
		case p.postedAt >= max(last, r.copied.at) && p.resends == 0 && r.newest.Before(n):
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
}

// sendLost has as many of the lost packets sent again as the budget and the congestion window
// allow: copies take no less room than other packets.
func (s *Sender) sendLost() {
	r := s.rec
	room := r.room(s)
	for n := s.oldest; n != s.next && r.marked > 0 && r.tokens >= tokenUnits && room > 0; n++ {
		if t := s.at(n); t != noToken && s.segment(t).state == Posted && s.segment(t).lost {
			s.sendAgain(t, CauseLost)
			room--
		}
	}
}

// onAck processes an acknowledgement under the adaptive rules; it is plausible and not old.
func (s *Sender) onAck(now mono.Time, ack seq.Num, sack *Sack, done []Token) []Token {
	r := s.rec
	before := len(done)
	// Some places may be kept for small messages. What the pace holds back fills no window.
	if r.pipe(s) >= r.cong.window-min(8, r.cong.window/16) || r.waits && r.pacer.short(s) {
		r.cong.limited = true
	}
	r.measure(s, now, ack, sack)
	if sack != nil && len(sack.Words) > 0 {
		r.holes = true
	}
	r.whole = !r.holes && ack.Sub(s.oldest) > 0
	segs := s.segs
	for ; s.oldest != ack+1; s.oldest++ {
		t := s.at(s.oldest)
		if t == noToken {
			r.sacked--
			continue
		}
		if p := &segs.segs[t]; p.state == Posted && p.resends == 0 && !p.lost && !r.holes {
			p.state = Free // as in arrived, for nearly all: in order, for the first time
			segs.posted--
		} else {
			s.arrived(now, t)
		}
		done = append(done, t)
	}
	r.newest = r.newest.Max(ack)
	if sack != nil {
		done = s.onWords(now, ack, sack.Words, done)
		r.onCopies(s, sack.Copies)
	}
	for ; s.oldest != s.next && s.at(s.oldest) == noToken; s.oldest++ {
		r.sacked-- // a peer that contradicts itself
	}
	if n := int32(len(done) - before); n > 0 {
		r.ackedAt, r.since, r.backoff = now, now, 0
		if s.oldest == s.next {
			r.since = longAgo
		}
		r.setWait(&s.segs.rules)
		if due := r.due(); s.oldest != s.next && due < r.holdAt {
			r.wake(s, now, due)
		}
		r.cong.grow(n, s.window)
		r.tokens = min(r.tokens+n, tokensFirst+tokenUnits*s.next.Sub(s.oldest))
		// While nothing new may be sent, a round is a time.
		if !r.newest.Before(r.roundEnd) || r.holes && now.Sub(r.roundAt) > r.paths[r.latest].wait() {
			took := now.Sub(r.roundAt)
			r.roundEnd, r.roundAt = s.next, now
			r.endRound(s, took)
		}
	}
	if r.news || r.marked > 0 || r.lossAt <= now {
		s.findLost(now)
		if r.lossAt != mono.Never {
			r.wake(s, now, r.lossAt)
		}
	}
	r.holes = r.sacked > 0 || r.gone > 0 || r.copied.at != 0
	s.pace(now)
	s.settle()
	return done
}

// measure takes the round trip of the packet that arrived last, if this is its first
// acknowledgement and there was only one copy of it (Karn's rule). An ACK that does not say which
// one arrived last tells nothing when it covers a packet that was sent again: what is behind that
// may have arrived long before.
func (r *recovery) measure(s *Sender, now mono.Time, ack seq.Num, sack *Sack) {
	n, delay := ack, time.Duration(0)
	if sack != nil {
		n, delay = sack.Last, sack.Delay
	}
	t, ok := s.Token(n)
	if !ok {
		return
	}
	p := s.segment(t)
	if p.state != Posted || p.resends > 0 || sack == nil && s.again(ack) {
		return
	}
	rtt := now.Sub(p.postedAt)
	if delay < rtt {
		rtt -= delay
	}
	r.latest = p.channel
	path := &r.paths[p.channel]
	path.sample(now, rtt)
	if sack != nil && sack.Unread > unreadLeast {
		rtt = max(rtt-sack.Unread, min(rtt, path.base)) // what the network can have taken at least
	}
	r.cong.sample(rtt, path.base, &s.segs.rules)
}

// again says whether a packet up to ack was sent again.
func (s *Sender) again(ack seq.Num) bool {
	for n := s.oldest; n != ack; n++ {
		if t := s.at(n); t != noToken && (s.segment(t).resends > 0 || s.segment(t).state == Resend) {
			return true
		}
	}
	return false
}

// onWords frees the packets that arrived beyond the first gap.
func (s *Sender) onWords(now mono.Time, ack seq.Num, words []uint64,
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
			s.arrived(now, t)
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
func (r *recovery) onCopies(s *Sender, copies uint32) {
	d := int32(copies - r.copies)
	if d <= 0 {
		return // an older ACK
	}
	r.copies = copies
	vain := min(d, r.again[0]+r.again[1])
	r.vain += uint32(vain)
	s.segs.counts.Spurious += uint64(vain)
	for i := range r.again {
		n := min(vain, r.again[i])
		r.again[i] -= n
		vain -= n
	}
}

// endRound takes the decisions that fall once in a round trip.
func (r *recovery) endRound(s *Sender, took time.Duration) {
	r.cong.endRound(&s.segs.rules, int32(s.window), took)
	r.waits = false
	r.lag = min(max(took-r.paths[r.latest].srtt, 0), r.peerDelay)
	r.cong.flight = r.pipe(s)
	r.tokens += tokensRound + tokenUnits*s.next.Sub(s.oldest)/4
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
func (s *Sender) OnSack(now mono.Time, ack seq.Num, credit uint16, sack *Sack,
	done []Token,
) ([]Token, AckVerdict) {
	if !s.Plausible(ack) || !s.sackOK(ack, sack) {
		return done, AckBogus
	}
	if s.rec == nil {
		done, verdict, _ := s.OnAck(now, ack, credit, true, done)
		return done, verdict
	}
	if ack.Sub(s.oldest)+1 < 0 {
		return done, AckOld
	}
	s.limit = s.limit.Max(ack.Add(1 + max(1, uint32(credit))))
	before := len(done)
	done = s.onAck(now, ack, sack, done)
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
func (s *Sender) onPlainAck(now mono.Time, ack seq.Num, idle bool,
	done []Token,
) (_ []Token, verdict AckVerdict, resend bool) {
	before := len(done)
	done = s.onAck(now, ack, nil, done)
	switch {
	case len(done) > before || ack+1 != s.oldest:
		return done, AckNew, false
	case s.oldest == s.next || idle || s.rec.selective:
		return done, AckIdle, false
	}
	t := s.at(s.oldest)
	p := s.segment(t)
	if p.state != Posted || now.Sub(p.postedAt) < s.rec.least(p.channel, &s.segs.rules) {
		return done, AckDuplicate, false
	}
	s.sendAgain(t, CauseDupAck)
	s.rec.cong.lost++
	s.settle()
	return done, AckDuplicate, true
}
