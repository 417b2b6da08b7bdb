package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// policy connects a Sender with its recovery profile. A policy decides when a packet in flight is
// retransmitted, and how many packets may be in flight within the limits of window and credits.
// One of the two pointers of a policy is set. If the Sender merely counts packets, neither of the
// two pointers is set.
type policy struct {
	usnic    *usnic    // one for all Senders of a module
	adaptive *adaptive // nil before the first packet: see begin
	joined   joined
}

// joined holds the values from which the method begin makes a Sender's state of the profile
// adaptive. In the other profiles, the field shared is nil.
type joined struct {
	shared    *adaptiveShared
	peerDelay time.Duration
}

// The method named some reports whether the policy has the state of a profile. Without this state,
// no packet is in flight.
func (p *policy) some() bool { return p.usnic != nil || p.adaptive != nil }

// The method begin makes the Sender's state of the profile adaptive when the Sender is about to
// send its first packet. A Sender that has sent nothing thus costs little memory.
func (p *policy) begin(s *Sender) {
	if p.adaptive == nil && p.joined.shared != nil {
		p.adaptive = p.joined.begin(s)
	}
}

// The method allows returns the number of packets that the policy permits to be sent now, or the
// constant unlimited.
func (p *policy) allows(s *Sender) int32 {
	switch {
	case p.adaptive != nil:
		return p.adaptive.allows(s)
	case p.joined.shared != nil:
		return p.joined.shared.first
	}
	return unlimited
}

// The method posted records that several packets (the argument count) with consecutive numbers from
// n on were sent together on a channel. The time-out for the ACK of the posted packets is at most
// limit.
func (p *policy) posted(s *Sender, now mono.Time, n seq.Num, count int, c Channel,
	limit time.Duration,
) {
	if p.adaptive != nil {
		p.adaptive.posted(s, now, c, limit)
		return
	}
	p.usnic.posted(s, now, n, count, limit)
}

// The method hasten ends the extended time-out of a lone reply, which is a packet whose ACK the
// peer may delay.
func (p *policy) hasten(s *Sender, now mono.Time) { p.adaptive.hasten(s, now) }

// The method reposted records that a segment of the retransmission list was retransmitted on the
// data channel.
func (p *policy) reposted(s *Sender, now mono.Time, t Token, limit time.Duration) {
	if p.adaptive != nil {
		p.adaptive.reposted(s, now, t, limit)
		return
	}
	p.usnic.checkin(now, t, limit)
}

// onAck processes an ACK that is plausible and not old. onAck frees the acknowledged
// packets, appends the freed segments to done, and queues lost packets for retransmission.
// The caller of onAck has already processed the credits in the ACK. The argument sack of
// onAck is the selective part of the ACK, or nil.
func (p *policy) onAck(s *Sender, now mono.Time, upTo seq.Num, quiet bool, sack *Sack,
	done []Token,
) ([]Token, AckVerdict) {
	switch {
	case p.adaptive == nil: // usnic ignores the selective part
		return p.usnic.onAck(s, now, upTo, quiet, done)
	case sack != nil:
		return p.adaptive.onSack(s, now, upTo, sack, done)
	}
	return p.adaptive.onPlainAck(s, now, upTo, quiet, done)
}

// sendAgain queues a packet in flight for retransmission after the peer has refused the packet.
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

// The method path returns the estimates of the path to the peer.
func (p *policy) path(s *Sender) PathState {
	switch {
	case p.adaptive != nil:
		return p.adaptive.path(s)
	case p.joined.shared != nil:
		return p.joined.begin(s).path(s)
	}
	return s.windowState()
}

// check reports the first broken invariant of the profile's state for the Sender.
func (p *policy) check(s *Sender) error {
	if p.adaptive != nil {
		return p.adaptive.check(s)
	}
	return nil
}
