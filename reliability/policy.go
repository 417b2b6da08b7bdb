package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// The type "policy" connects a Sender with the loss recovery of its profile. A policy decides when
// a packet is retransmitted. The policy of a Sender also decides how many packets may be in flight,
// but never more than the send window and the credits permit. The type Segments holds the
// loss-recovery state that all Senders of a module share.
type policy struct {
	// The field "adaptive" is nil in the profiles usnic and lossless, and before the Sender's first
	// packet (see begin).
	adaptive  *adaptive
	peerDelay time.Duration // the argument of Recovery.Join; only the profile adaptive needs it
}

// The method "none" reports whether the Sender merely counts packets, or has not sent a packet yet.
func (p *policy) none(s *Sender) bool {
	return p.adaptive == nil && (s.segs == nil || s.segs.usnic == nil)
}

// The method "begins" returns the shared state of the profile adaptive if the Sender uses this
// profile and has sent no packet yet, and otherwise nil.
func (p *policy) begins(s *Sender) *adaptiveShared {
	if p.adaptive != nil || s.segs == nil {
		return nil
	}
	return s.segs.adaptive
}

// The method "begin" allocates the data that the profile "adaptive" needs for a Sender, when the
// Sender is about to send its first packet. Without this data, a Sender takes little memory before
// its first packet.
func (p *policy) begin(s *Sender) {
	if shared := p.begins(s); shared != nil {
		p.adaptive = shared.begin(s)
	}
}

// The method "posted" records that one or more packets with consecutive numbers were sent together
// on channel c. The argument n of the method "posted" is the number of the first of the packets
// that were sent together. The argument "limit" of the method "posted" is an upper bound for the
// time-out of the sent packets.
func (p *policy) posted(s *Sender, now mono.Time, n seq.Num, count int, c Channel,
	limit time.Duration,
) {
	if p.adaptive != nil {
		p.adaptive.posted(s, now, c, limit)
		return
	}
	s.segs.usnic.posted(s, now, n, count, limit)
}

// sendAgain queues a packet in flight for retransmission, and records the reason (the argument
// "cause").
func (p *policy) sendAgain(s *Sender, t Token, cause Cause) {
	switch {
	case p.adaptive != nil:
		p.adaptive.sendAgain(s, t, cause)
	case s.segs != nil && s.segs.usnic != nil:
		s.segs.usnic.sendAgain(t, cause)
	}
}

func (p *policy) abandon(s *Sender) {
	switch {
	case p.adaptive != nil:
		p.adaptive.abandon()
	case s.segs != nil && s.segs.usnic != nil:
		s.segs.usnic.abandon(s)
	}
}

// check returns an error if the recovery profile's state of the given Sender violates an invariant,
// and nil otherwise.
func (p *policy) check(s *Sender) error {
	if p.adaptive != nil {
		return p.adaptive.check(s)
	}
	return nil
}
