package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// policy is the seam between the window of a Sender and the recovery profiles: it decides when a
// packet in flight is sent again, and how many may be in flight by other bounds than window and
// credits. One of the two pointers is set, or none if the Sender only counts. It is not an
// interface, so that a packet costs no indirect call, and arguments of an ACK may stay on the
// stack. The methods are all events that a profile handles, for each ACK, batch of packets, or
// timer; a Sender distinguishes profiles nowhere else.
type policy struct {
	usnic    *usnic // one for all Senders of a module
	adaptive *adaptive
}

func (p *policy) some() bool { return p.usnic != nil || p.adaptive != nil }

// allows is the number of packets that may leave now, or unlimited.
func (p *policy) allows(s *Sender) int32 {
	if p.adaptive != nil {
		return p.adaptive.allows(s)
	}
	return unlimited
}

// posted: count packets, from number n on, were sent together on a channel. The time-out for an
// answer is at most limit.
func (p *policy) posted(s *Sender, now mono.Time, n seq.Num, count int, c Channel,
	limit time.Duration,
) {
	if p.adaptive != nil {
		p.adaptive.posted(s, now, c, limit)
		return
	}
	p.usnic.posted(s, now, n, count, limit)
}

// hasten: the timer of a lone answer restarts as for a packet sent now. Only one profile has lone
// answers.
func (p *policy) hasten(s *Sender, now mono.Time) { p.adaptive.hasten(s, now) }

// reposted: a segment of the resend list was sent again, on the data channel.
func (p *policy) reposted(s *Sender, now mono.Time, t Token, limit time.Duration) {
	if p.adaptive != nil {
		p.adaptive.reposted(s, now, t, limit)
		return
	}
	p.usnic.checkin(now, t, limit)
}

// onAck processes an ACK, which is plausible and not old: it frees the arrived packets, appends
// them to done, queues packets thereby found lost for retransmission, and updates the send limit.
// The Sender knows the new credits already. Sack is the selective part, or nil.
func (p *policy) onAck(s *Sender, now mono.Time, upTo seq.Num, quiet bool, sack *Sack,
	done []Token,
) ([]Token, AckVerdict) {
	switch {
	case p.adaptive == nil: // what a selective one says beside counts for nothing
		return p.usnic.onAck(s, now, upTo, quiet, done)
	case sack != nil:
		return p.adaptive.onSack(s, now, upTo, sack, done)
	}
	return p.adaptive.onPlainAck(s, now, upTo, quiet, done)
}

// sendAgain queues a packet in flight for retransmission after the peer has refused it.
func (p *policy) sendAgain(s *Sender, t Token, cause Cause) {
	switch {
	case p.adaptive != nil:
		p.adaptive.sendAgain(s, t, cause)
	case p.usnic != nil:
		p.usnic.sendAgain(t, cause)
	}
}

// abandon stops the timers of all packets in flight: the peer is gone.
func (p *policy) abandon(s *Sender) {
	switch {
	case p.adaptive != nil:
		p.adaptive.abandon()
	case p.usnic != nil:
		p.usnic.abandon(s)
	}
}

// path returns the estimates of the path.
func (p *policy) path(s *Sender) PathState {
	if p.adaptive != nil {
		return p.adaptive.path(s)
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
