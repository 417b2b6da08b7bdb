package reliability

import (
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Over a network that loses and reorders nothing the two sides of a connection only count its
// packets: a Sender by Count and Confirm, a Receiver by Expected and Count, instead of the methods
// that know of windows, segments and timers. Credits are the same. On the wire zero means "no
// number", so counting leaves it out.

func skipZero(n seq.Num) seq.Num {
	if n == 0 {
		return 1
	}
	return n
}

// Count gives a packet its number. It may be called beyond the credits, for a packet that asks
// whether the others have arrived.
func (s *Sender) Count() seq.Num {
	n := skipZero(s.next)
	s.next = n + 1
	return n
}

// Unbind lets nothing but the credits bound what is sent. A Receiver that counts confirms unasked
// only to renew them, after a share of them that may be more than the sender's window.
func (s *Sender) Unbind() {
	s.window = unlimited
	s.updateSendLimit()
}

// Confirm books that everything up to ack has arrived, and the new credits. It reports whether that
// is news; an ack that is not Plausible must not be given to it.
func (s *Sender) Confirm(now mono.Time, ack seq.Num, credit uint16) bool {
	if ack.Add(1).Before(s.oldest) {
		return false
	}
	s.raise(now, ack.Add(1+max(1, uint32(credit))))
	news := ack.Add(1) != s.oldest
	s.oldest = ack.Add(1)
	s.updateSendLimit()
	return news
}

// Forget forgets what is not confirmed, and the credits: for a peer that is gone.
func (s *Sender) Forget() { s.oldest, s.limit, s.sendLimit = s.next, s.next, s.next }

// Expected is the number of the packet that comes next.
func (r *Receiver) Expected() seq.Num { return skipZero(r.next) }

// Credited says whether the peer has been given a credit for the packet that comes next. Where
// numbers wrap a sender has one more than numbers, for zero is none.
func (r *Receiver) Credited() bool {
	limit := r.told
	if limit < creditMax {
		limit++
	}
	return r.next.Before(limit)
}

const creditMax = 1 << 16

// Count books the packet that came next. An ACK is due only if the peer needs credits: after a
// quarter of them, or when they are used up. AskAck makes one due for another reason.
func (r *Receiver) Count(now mono.Time) {
	r.next = skipZero(r.next) + 1
	r.ackNews = true
	charged := r.charged
	if charged > earnedFirst && now.Sub(r.raisedAt) >= creditLease { // the peer may have rested
		charged = earnedFirst
	}
	if r.unacked++; r.unacked >= max(2, charged/4) || !r.next.Before(r.limit) {
		r.ackAt = now
	}
}
