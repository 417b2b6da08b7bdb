package reliability

import (
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Over a network that loses and reorders nothing the two sides of a connection only count its
// packets: a Sender by Count and Confirm, a Receiver by Expected and Count, instead of the methods
// for windows, segments and timers. Credits work as usual. On the wire zero means "no number", so
// the count skips zero.

func skipZero(n seq.Num) seq.Num {
	if n == 0 {
		return 1
	}
	return n
}

// Count gives a packet its number. It may be called beyond the credits, for a packet that requests
// a confirmation of the others.
func (s *Sender) Count() seq.Num {
	n := skipZero(s.next)
	s.next = n + 1
	return n
}

// Unbind makes the credits the only bound of the sender. A counting Receiver confirms unasked only
// to renew credits, after a share of them that may exceed the sender's window.
func (s *Sender) Unbind() {
	s.window = unlimited
	s.updateSendLimit()
}

// Confirm processes a confirmation of all packets up to ack, and the new credits. It returns
// whether either is news; ack must be Plausible.
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

// Forget discards unconfirmed packets and the credits, for a peer that is gone.
func (s *Sender) Forget() { s.oldest, s.limit, s.sendLimit = s.next, s.next, s.next }

// Expected is the number of the packet that comes next.
func (r *Receiver) Expected() seq.Num { return skipZero(r.next) }

// Credited says whether the peer has a credit for the next packet. Where numbers wrap, a sender has
// one credit more than numbers, as zero is skipped.
func (r *Receiver) Credited() bool {
	limit := r.told
	if limit < creditMax {
		limit++
	}
	return r.next.Before(limit)
}

const creditMax = 1 << 16

// Count counts the next packet as received. An ACK is due only if the peer needs credits: after a
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
