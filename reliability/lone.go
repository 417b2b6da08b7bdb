package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A lone answer is a packet that carries the first ACK of the peer's packets while no other packet
// of its sender is in flight. An ACK of the answer would mostly be a packet of its own, and wake a
// process: so the peer may delay it until it has something to send, and the sender waits longer for
// it. That does not delay loss recovery: if the answer is lost, so is its piggybacked ACK, and the
// peer's ordinary timer retransmits the request. That copy shows that the answer must be sent
// again.
//
//	peer    request -->            request + ACK -->             request -->        copy -->
//	sender           <-- answer                     <-- answer        lost <-- answer     <-- answer
//
// Only one of the two sides is patient at a time: a packet that only acknowledges a lone answer is
// not a lone answer itself.

// loneFresh is the largest age of a round-trip sample for lone answers. They yield no samples
// themselves, so that now and then one must be sent as an ordinary packet.
const loneFresh = time.Second

// AcceptLone is Accept for a lone answer. If holds is set its ACK is delayed, unless there is a
// reason to send one sooner.
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

// AckLater says whether the pending ACK is the delayed one of a lone answer: then it may wait for a
// packet to be piggybacked on even while its owner sleeps.
func (r *Receiver) AckLater() bool { return r.ackLater }

// Answers says whether the pending ACK is the first one of a packet that the peer would soon
// retransmit.
func (r *Receiver) Answers() bool { return r.ackNews && !r.patient }

// MayBePatient says whether a packet sent now by a channel may be a lone answer, by the state of
// this Sender: nothing is in flight, the round trip was measured lately, and the traffic is so
// frequent that the next request should come before the delayed ACK. A further packet must still
// fit the windows beside this one of sizeBytes, or it would wait for the delayed ACK.
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

// Missed is called when the peer has retransmitted a packet that arrived before. A lone answer in
// flight for longer than a round trip is then lost, and queued again; Missed returns true. An
// earlier copy proves nothing, as it left before the answer could arrive; but it is answered by an
// ACK, and no further copy may come.
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
