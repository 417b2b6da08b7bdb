package reliability

import (
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Over a network without loss and reordering, the two sides of a connection only count packets. A
// Sender then uses Count and Confirm, and a Receiver uses Expected and Count. The methods for
// windows, segments and timers are not used, but credits work as usual. On the wire, zero means "no
// number", and therefore the count skips zero.

func skipZero(n seq.Num) seq.Num {
	if n == 0 {
		return 1
	}
	return n
}

// Count returns the number of the next packet. A caller may exceed the credits with a packet that
// requests an ACK of the other packets.
func (s *Sender) Count() seq.Num {
	n := skipZero(s.next)
	s.next = n + 1
	return n
}

// Unbind makes the credits the only limit of the sender. A counting Receiver sends an ACK without a
// request only to renew credits. A renewal of credits may come after more packets than the sender's
// window holds.
func (s *Sender) Unbind() {
	s.window = unlimited
	s.updateSendLimit()
}

// Confirm processes an ACK of all packets up to ack, and the new credits. Confirm reports whether
// the ACK acknowledges packets that were in flight. The argument ack of Confirm must be Plausible.
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

// Forget discards the unacknowledged packets and the credits, when the peer is gone.
func (s *Sender) Forget() { s.oldest, s.limit, s.sendLimit = s.next, s.next, s.next }

// Expected is the number of the packet that comes next.
func (r *Receiver) Expected() seq.Num { return skipZero(r.next) }

// Credited reports whether the peer has a credit for the next packet. When the sequence numbers
// wrap, the sender has one credit more than numbers up to the limit, because the count skips zero.
func (r *Receiver) Credited() bool {
	limit := r.told
	if limit < creditMax {
		limit++
	}
	return r.next.Before(limit)
}

const creditMax = 1 << 16

// Count counts the next packet as received. An ACK becomes due only if the peer needs credits,
// which is after a quarter of the credits or when all credits are used. AskAck makes an ACK due for
// another reason.
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
