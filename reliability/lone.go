package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A lone answer is a packet that brings the first acknowledgement of what the peer has sent, while
// nothing else of its sender is in flight. Its own ACK would mostly be a packet for that alone, and
// wake a process: so the peer may hold it back until it has something to send, and the sender waits
// longer for it. Nothing is found out later for that. If the answer is lost, so is the ACK on it,
// and the peer sends again what it has asked, by a timer that knows of no patience: that copy says
// that the answer is to be sent again.
//
//	peer    request -->            request + ACK -->             request -->        copy -->
//	sender           <-- answer                     <-- answer        lost <-- answer     <-- answer
//
// Of the two sides only one is patient, then: a packet that brings nothing but the ACK of a lone
// answer is none itself.

// loneFresh is for how long a measured round trip is good enough for a sender to be patient. Lone
// answers measure nothing, so that one in a while has to be an ordinary packet.
const loneFresh = time.Second

// AcceptLone is Accept for a lone answer. If it holds, its ACK is held back, unless there is a
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

// AckLater says whether the pending ACK is that of a lone answer, and held back: then it may wait
// for a packet to ride on even if its owner sleeps meanwhile.
func (r *Receiver) AckLater() bool { return r.ackLater }

// Answers says whether the pending ACK is the first of something that the peer would send again
// before long.
func (r *Receiver) Answers() bool { return r.ackNews && !r.patient }

// MayBePatient says whether a packet that leaves now by a channel may be a lone answer, as far as
// the path knows: nothing is in flight, the round trip was measured lately, and so busy is this
// sender that the next request is to be expected before the ACK were due. Behind the packet, of so
// many bytes, another one must find room: else that would wait for the ACK which is held back.
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

// Missed is called when the peer has sent again what it has got before. If a lone answer is in
// flight for longer than it takes it is lost, and sent again; true says so. A copy that came sooner
// has left before the answer could be there, and says nothing; but it is answered by an ACK, and
// none may follow.
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
