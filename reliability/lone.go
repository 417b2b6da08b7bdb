package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A lone reply is a packet that contains the first ACK of a request, while no other packet
// of its sender is in flight. An immediate ACK of a lone reply (a reply sent while nothing else is
// in flight) would usually need a packet without data, which would wake a process. The receiver of
// a lone reply may delay the ACK of the reply until it has another packet to send, and the sender
// of the reply waits longer for this ACK. The delay of this ACK does not slow loss recovery. If a
// lone reply is lost, the ACK in the reply is lost with it, and the peer retransmits the request
// after its ordinary time-out. The retransmitted request shows that the reply must be
// retransmitted.
//
//	peer    request -->            request + ACK -->             request -->        copy -->
//	sender           <-- answer                     <-- answer        lost <-- answer     <-- answer
//
// A packet without data is never a lone reply, so that the ACK of a lone reply is not delayed in
// turn; therefore at most one of the two ends uses the longer time-out for lone replies at a time.

// A lone reply (a packet whose ACK may be delayed) may be sent only if the latest round-trip sample
// is not older than loneFresh.
const loneFresh = time.Second

// AcceptLone works like Accept, for a lone reply, which is a packet whose ACK may be delayed. If
// the argument holds of AcceptLone is true, the ACK of the lone reply is delayed, unless another
// event makes an ACK due earlier.
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

// AckLater reports whether the pending ACK is the delayed ACK of a lone reply. The delayed ACK of a
// lone reply (a packet whose ACK may be delayed) may wait for the next packet to the peer even
// while the module's owner sleeps.
func (r *Receiver) AckLater() bool { return r.ackLater }

// Answers reports whether the pending ACK acknowledges a packet for the first time, so that the
// peer would soon retransmit the packet if the ACK were not sent.
func (r *Receiver) Answers() bool { return r.ackNews && !r.patient }

// MayBePatient reports whether a packet sent now on channel c may be a lone reply, which is a
// packet whose ACK the peer may delay. MayBePatient returns true only if no other packet is in
// flight, and the round trip was measured recently. MayBePatient also requires that packets are
// sent so frequently that the peer's next request is expected earlier than its delayed ACK. After
// the reply of sizeBytes, the send window must have room for one more packet, so that the next
// packet need not wait for the delayed ACK of the reply.
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

// Missed must be called when the peer has retransmitted a packet that had already arrived. If a
// lone reply (a packet whose ACK may be delayed) has been in flight for longer than a round trip,
// the reply is lost. Missed queues the lost reply for retransmission, and returns true. If a lone
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
