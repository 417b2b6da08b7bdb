package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A lone reply is a packet that contains the first ACK of a request, while no other packet
// of its sender is in flight. An immediate ACK of a lone reply would usually need a packet
// of its own, which would wake a process. The peer may delay the ACK of a lone reply until
// the peer has something to send, and the sender of the reply uses a longer time-out. The
// ACK delay for lone replies does not slow loss recovery. If a lone reply is lost, the ACK
// in the reply is also lost, and the peer retransmits the request after its ordinary
// time-out. The retransmitted request shows that the reply must be retransmitted.
//
//	peer    request -->            request + ACK -->             request -->        copy -->
//	sender           <-- answer                     <-- answer        lost <-- answer     <-- answer
//
// Only one of the two ends uses the longer time-out for lone replies at a time, because a packet
// without data that acknowledges a lone reply is not a lone reply.

// loneFresh is the largest age of a round-trip sample with which a lone reply (a packet whose ACK
// may be delayed) may be sent.
const loneFresh = time.Second

// AcceptLone works like Accept, for a lone reply, which is a packet whose ACK may be delayed. If
// holds is true, the ACK of the lone reply is delayed, unless another reason makes an ACK due
// earlier.
func (r *Receiver) AcceptLone(now mono.Time, n seq.Num, holds bool, rules *Rules) {
	delay := rules.AckDelay
	holds = holds && r.ackAt == mono.Never && n == r.next && r.held == 0
	if holds {
		delay = max(delay, LoneAckDelay)
	}
	r.accept(now, n, delay, rules)
	r.patient = r.unacked == 1
	r.ackLater = holds && r.ackAt > now
}

// AckLater reports whether the pending ACK is the delayed ACK of a lone reply. The delayed ACK of
// a lone reply may wait for a packet that can contain the ACK, even while the module's owner
// sleeps.
func (r *Receiver) AckLater() bool { return r.ackLater }

// Answers reports whether the pending ACK is the first ACK of a packet that the peer would soon
// retransmit.
func (r *Receiver) Answers() bool { return r.ackNews && !r.patient }

// MayBePatient reports whether a packet sent now on channel c may be a lone reply, which is a
// packet whose ACK the peer may delay. MayBePatient returns true only if no other packet is in
// flight, and the round trip was measured recently. MayBePatient also requires requests so
// frequent that the next request is expected before the delayed ACK. The send window must have
// room for another packet after the reply of sizeBytes, because the delayed ACK of the reply must
// not stop that packet.
func (s *Sender) MayBePatient(now mono.Time, c Channel, sizeBytes int) bool {
	a := s.policy.adaptive
	return a != nil && s.oldest == s.next && a.paths[c].srtt != 0 &&
		s.next.Add(1).Before(s.sendLimit) && s.bytes+sizeBytes < s.bytesMax &&
		now.Sub(a.paths[c].sampledAt) < loneFresh &&
		now.Sub(max(a.sentAt[Command], a.sentAt[Data])) < LoneAckDelay
}

// PostLone works like Post, for a lone reply, which is a packet whose ACK the peer may delay.
func (s *Sender) PostLone(now mono.Time, t Token, n seq.Num, c Channel, limit time.Duration) {
	s.segs.post(now, t, s.number, n, c)
	s.segment(t).lone, s.patient = true, true
	s.policy.posted(s, now, n, 1, c, limit)
}

// Missed must be called when the peer has retransmitted a packet that arrived before. If a lone
// reply (a packet whose ACK may be delayed) has been in flight for longer than a round trip, the
// reply is lost. Missed queues the lost reply for retransmission, and returns true. If a lone
// reply has been in flight for less than a round trip, Missed only ends its longer time-out.
func (s *Sender) Missed(now mono.Time) (lost bool) {
	if !s.patient {
		return false
	}
	a, t := s.policy.adaptive, s.at(s.oldest)
	if p := s.segment(t); now.Sub(p.postedAt) < a.least(p.channel) {
		s.Hasten(now)
		return false
	}
	a.sendAgain(s, t, CauseLost)
	s.updateSendLimit()
	return true
}
