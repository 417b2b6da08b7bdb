package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A lone answer is a packet that carries the first ACK of the peer's packets while no other packet
// of its sender is in flight. An ACK of the answer would mostly be a packet of its own, and would
// wake a process. The peer may therefore delay that ACK until the peer has something to send, and
// the sender of the answer waits longer for the ACK. The delay does not slow loss recovery. If the
// answer is lost, its piggybacked ACK is also lost, and the peer's ordinary timer retransmits the
// request. The retransmitted request shows that the answer must be sent again.
//
//	peer    request -->            request + ACK -->             request -->        copy -->
//	sender           <-- answer                     <-- answer        lost <-- answer     <-- answer
//
// Only one of the two ends waits patiently at a time, because a packet that only acknowledges a
// lone answer is not a lone answer itself.

// loneFresh is the largest age of a round-trip sample for lone answers. Lone answers yield no
// samples, and therefore an answer must sometimes be sent as an ordinary packet.
const loneFresh = time.Second

// AcceptLone is Accept for a lone answer. If holds is set, the ACK of the lone answer is delayed,
// unless another reason makes an ACK due earlier.
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

// AckLater reports whether the pending ACK is the delayed ACK of a lone answer. A delayed ACK may
// wait for a packet that can carry the ACK, even while the module's owner sleeps.
func (r *Receiver) AckLater() bool { return r.ackLater }

// Answers reports whether the pending ACK is the first ACK of a packet that the peer would soon
// retransmit.
func (r *Receiver) Answers() bool { return r.ackNews && !r.patient }

// MayBePatient reports whether the state of this Sender permits a packet sent now on channel c to
// be a lone answer. Nothing may be in flight, and the round trip must have been measured lately.
// Traffic must be so frequent that the next request should come before the delayed ACK. The windows
// must have room for a further packet beside the answer of sizeBytes, because a further packet
// would otherwise wait for the delayed ACK.
func (s *Sender) MayBePatient(now mono.Time, c Channel, sizeBytes int) bool {
	a := s.policy.adaptive
	return a != nil && s.oldest == s.next && a.paths[c].srtt != 0 &&
		s.next.Add(1).Before(s.sendLimit) && s.bytes+sizeBytes < s.bytesMax &&
		now.Sub(a.paths[c].sampledAt) < loneFresh &&
		now.Sub(max(a.sentAt[Command], a.sentAt[Data])) < LoneAckDelay
}

// PostLone is Post for a lone answer.
func (s *Sender) PostLone(now mono.Time, t Token, n seq.Num, c Channel, limit time.Duration) {
	s.segs.post(now, t, s.number, n, c)
	s.segment(t).lone, s.patient = true, true
	s.policy.posted(s, now, n, 1, c, limit)
}

// Missed is called when the peer has retransmitted a packet that arrived before. If a lone answer
// is in flight for longer than a round trip when Missed is called, the lone answer is lost. Missed
// queues the lost answer for retransmission, and returns true. A copy that comes earlier proves
// nothing, because the copy left the peer before the answer could arrive. After an early copy,
// Missed only ends the longer wait for the ACK of the lone answer.
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
