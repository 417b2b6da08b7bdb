package reliability

import (
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// On a network without loss and reordering, both ends of a connection merely count packets, without
// windows and retransmissions. On a network without loss, the sending end calls Sender.Count and
// Sender.Confirm, and the receiving end calls Receiver.Expected and Receiver.Count. On a network
// without loss, the methods for credits are used, but the methods for windows, segments and timers
// are not. When packet numbers wrap around, the number zero is skipped, because zero means "no
// number" in a packet header.

func skipZero(n seq.Num) seq.Num {
	if n == 0 {
		return 1
	}
	return n
}

// Count counts a packet that is about to be sent, and returns its number. A packet that only
// requests an ACK needs no credit.
func (s *Sender) Count() seq.Num {
	n := skipZero(s.next)
	s.next = n + 1
	return n
}

// Unbind removes the send window, so that the number of packets in flight is limited only by the
// credits.
func (s *Sender) Unbind() {
	s.window = unlimited
	s.updateSendLimit()
}

// Confirm processes an ACK of all packets up to and including number ack, and the credits in the
// ACK. Confirm reports whether the ACK acknowledges packets that no earlier ACK has acknowledged.
// Before calling Confirm, the caller must check the acknowledged number with Plausible.
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

// Forget discards the unacknowledged packets and the credits when the connection to the peer has
// ended.
func (s *Sender) Forget() { s.oldest, s.limit, s.sendLimit = s.next, s.next, s.next }

// Expected returns the number that the next packet from the peer must have.
func (r *Receiver) Expected() seq.Num { return skipZero(r.next) }

// Credited reports whether the peer has a credit for the next packet. When the sequence numbers
// wrap around, Credited moves the credit limit by one, because no packet has the number zero.
func (r *Receiver) Credited() bool {
	limit := r.told
	if limit < creditMax {
		limit++
	}
	return r.next.Before(limit)
}

const creditMax = 1 << 16

// Count records the arrival of the next packet, whose number Expected has returned. An ACK becomes
// due when the unacknowledged packets have used a quarter of the peer's credits, or when the peer
// has used all its credits.
func (r *Receiver) Count(now mono.Time) {
	r.next = skipZero(r.next) + 1
	r.ackNews = true
	charged := r.charged
	if charged > earnedFirst && now.Sub(r.raisedAt) >= creditLease { // the peer may have been idle
		charged = earnedFirst
	}
	if r.unacked++; r.unacked >= max(2, charged/4) || !r.next.Before(r.limit) {
		r.ackAt = now
	}
}
