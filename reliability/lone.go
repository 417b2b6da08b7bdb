package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A lone reply is a packet that carries both data and the first ACK of a request, and is the only
// packet in flight of its sender. An immediate ACK of a lone reply would usually need a packet
// without data, which would wake the process that has sent the reply. The receiver of a lone reply
// is allowed to delay its ACK until the next request can carry it. Because the ACK of a lone reply
// may be delayed, the sender of the lone reply uses a longer time-out. In spite of the longer
// time-out, the loss of a lone reply is detected after an ordinary time-out. When a lone reply is
// lost, the ACK of the request is lost with it, so that the peer retransmits the request after the
// ordinary time-out. When the request arrives a second time, the sender of the lone reply concludes
// that the reply was lost, and retransmits the reply.
//
//	peer    request -->            request + ACK -->             request -->        copy -->
//	sender           <-- answer                     <-- answer        lost <-- answer     <-- answer
//
// A packet without data is never a lone reply. At most one of the two ends of a connection uses the
// longer time-out of lone replies at any time.

// loneFresh is the largest age of the latest round-trip sample at which a packet may be sent as a
// lone reply.
const loneFresh = time.Second

// AcceptLone works like Accept, for a lone reply (a packet whose ACK may be delayed). The argument
// "holds" of AcceptLone says whether the ACK may be delayed by LoneAckDelay instead of AckDelay.
// The ACK is sent earlier if, before LoneAckDelay has passed, another received packet makes an ACK
// due.
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

// AckLater reports whether the pending ACK is the delayed ACK of a lone reply (AcceptLone). While
// only a delayed ACK is pending, the program may sleep.
func (r *Receiver) AckLater() bool { return r.ackLater }

// Answers reports whether the pending ACK is the first ACK of a packet that has an ordinary
// time-out, so that the peer will soon retransmit this packet if no ACK arrives.
func (r *Receiver) Answers() bool { return r.ackNews && !r.patient }

// MayBePatient reports whether a packet that is sent on channel c at the time "now" is allowed to
// be a lone reply (a packet whose ACK the peer may delay). A lone reply is allowed only if no other
// packet is in flight, and if the round trip was measured recently. A lone reply is also allowed
// only if packets were sent recently, because otherwise the peer's next request probably arrives
// after the delayed ACK is due. A packet of sizeBytes can be a lone reply only if the windows and
// credits permit one more packet after it, because the next packet would otherwise have to wait for
// the delayed ACK.
func (s *Sender) MayBePatient(now mono.Time, c Channel, sizeBytes int) bool {
	a := s.policy.adaptive
	return a != nil && s.oldest == s.next && a.paths[c].srtt != 0 &&
		s.next.Add(1).Before(s.sendLimit) && s.bytes+sizeBytes < s.bytesMax &&
		now.Sub(a.paths[c].sampledAt) < loneFresh &&
		now.Sub(max(a.sentAt[Command], a.sentAt[Data])) < LoneAckDelay
}

// PostLone works like Post, for a lone reply (a packet whose ACK the peer is allowed to delay).
func (s *Sender) PostLone(now mono.Time, t Token, n seq.Num, c Channel, limit time.Duration) {
	s.segs.post(now, t, s.number, n, c)
	s.segment(t).lone, s.patient = true, true
	s.policy.posted(s, now, n, 1, c, limit)
}

// Missed must be called when a packet that the peer has retransmitted arrives as a duplicate. If a
// lone reply in flight was sent more than a round trip ago, a duplicate of the request shows that
// the lone reply is lost. Missed queues a lost lone reply for retransmission, and reports whether
// it has done so. If a lone reply was sent less than a round trip ago, Missed only ends the longer
// time-out of this reply, and returns false.
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
