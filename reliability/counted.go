package reliability

import (
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Over a network without loss and reordering, both ends of a connection count packets, and do
// without windows and retransmissions. To count packets instead of using windows, a Sender uses
// Count and Confirm, and a Receiver uses Expected and Count. On a network without loss, the methods
// for windows, segments and timers are not used, but the methods for credits are used. In a packet
// header, the number zero means "no number", and therefore the packet count skips zero.

func skipZero(n seq.Num) seq.Num {
	if n == 0 {
		return 1
	}
	return n
}

// Count counts the next packet to be sent, and returns the number of this packet. A packet that
// requests an ACK of the other packets may exceed the credits.
func (s *Sender) Count() seq.Num {
	n := skipZero(s.next)
	s.next = n + 1
	return n
}

// Unbind removes the limit of the send window, so that only the credits limit the sender.
func (s *Sender) Unbind() {
	s.window = unlimited
	s.updateSendLimit()
}

// Confirm processes an ACK of all packets up to ack, and the new credits in the ACK. Confirm
// reports whether the ACK acknowledges packets that were in flight. The caller must have checked
// the argument ack of Confirm with Plausible.
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

// Forget discards the unacknowledged packets and the credits, because the peer is gone.
func (s *Sender) Forget() { s.oldest, s.limit, s.sendLimit = s.next, s.next, s.next }

// Expected is the sequence number of the packet that arrives next.
func (r *Receiver) Expected() seq.Num { return skipZero(r.next) }

// Credited reports whether the peer has a credit for the next packet. When the sequence numbers
// wrap around, the peer has one credit more than it can use up to the credit limit, because no
// packet has the number zero.
func (r *Receiver) Credited() bool {
	limit := r.told
	if limit < creditMax {
		limit++
	}
	return r.next.Before(limit)
}

const creditMax = 1 << 16

// Count records the arrival of the packet with the number Expected. An ACK becomes due when the
// unacknowledged packets have used a quarter of the peer's credits, or when the peer has used all
// its credits.
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
