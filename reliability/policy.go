package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// The type "policy" connects a Sender with the loss recovery of its profile. A policy decides when
// a packet is retransmitted. The policy of a Sender also decides how many packets may be in flight,
// but never more than the send window and the credits permit. A policy has two pointers, "usnic"
// and "adaptive", of which at most one is set. Both pointers of a policy are nil if the Sender
// merely counts packets, and in the profile adaptive until the Sender's first packet.
type policy struct {
	usnic    *usnic    // one for all Senders of a module
	adaptive *adaptive // nil before the first packet: see begin
	joined   joined
}

// The type "joined" stores the arguments of Recovery.Join, which the profile adaptive needs when it
// allocates a Sender's state. In the profiles usnic and lossless, the field "shared" of the type
// "joined" is nil.
type joined struct {
	shared    *adaptiveShared
	peerDelay time.Duration
}

// The method "none" reports whether the Sender merely counts packets, or has not sent a packet yet.
func (p *policy) none() bool { return p.usnic == nil && p.adaptive == nil }

// The method "begin" allocates a Sender's state of the profile adaptive when the Sender is about to
// send its first packet. Before its first packet, a Sender takes little memory, because it has no
// state of the profile adaptive.
func (p *policy) begin(s *Sender) {
	if p.adaptive == nil && p.joined.shared != nil {
		p.adaptive = p.joined.begin(s)
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
	p.usnic.posted(s, now, n, count, limit)
}

// sendAgain queues a packet in flight for retransmission, and records the reason (the argument
// "cause").
func (p *policy) sendAgain(s *Sender, t Token, cause Cause) {
	switch {
	case p.adaptive != nil:
		p.adaptive.sendAgain(s, t, cause)
	case p.usnic != nil:
		p.usnic.sendAgain(t, cause)
	}
}

func (p *policy) abandon(s *Sender) {
	switch {
	case p.adaptive != nil:
		p.adaptive.abandon()
	case p.usnic != nil:
		p.usnic.abandon(s)
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
