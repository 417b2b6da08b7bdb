package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// policy connects the window of a Sender with the recovery profiles. The policy decides when a
// packet in flight is retransmitted, and how many packets may be in flight beyond the limits of
// window and credits. One of the two pointers is set, or none if the Sender only counts. The type
// policy is a struct instead of an interface, which avoids indirect calls for each packet and keeps
// the arguments of an ACK on the stack. The methods of policy are all events that a profile
// handles, for each ACK, each batch of packets, or each timer. A Sender distinguishes profiles
// nowhere else.
type policy struct {
	usnic    *usnic // one for all Senders of a module
	adaptive *adaptive
}

func (p *policy) some() bool { return p.usnic != nil || p.adaptive != nil }

// allows is the number of packets that may be sent now, or unlimited.
func (p *policy) allows(s *Sender) int32 {
	if p.adaptive != nil {
		return p.adaptive.allows(s)
	}
	return unlimited
}

// posted notes that count packets, from number n on, were sent together on a channel. The time-out
// for their ACK is at most limit.
func (p *policy) posted(s *Sender, now mono.Time, n seq.Num, count int, c Channel,
	limit time.Duration,
) {
	if p.adaptive != nil {
		p.adaptive.posted(s, now, c, limit)
		return
	}
	p.usnic.posted(s, now, n, count, limit)
}

// hasten restarts the timer of a lone answer as for a packet sent now. Only the profile adaptive
// has lone answers.
func (p *policy) hasten(s *Sender, now mono.Time) { p.adaptive.hasten(s, now) }

// reposted notes that a segment of the resend list was retransmitted on the data channel.
func (p *policy) reposted(s *Sender, now mono.Time, t Token, limit time.Duration) {
	if p.adaptive != nil {
		p.adaptive.reposted(s, now, t, limit)
		return
	}
	p.usnic.checkin(now, t, limit)
}

// onAck processes an ACK that is plausible and not old. onAck frees the arrived packets, appends
// the freed segments to done, and queues packets that the ACK shows to be lost for retransmission.
// The caller of onAck has already processed the new credits. The argument sack of onAck is the
// selective part, or nil.
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

// abandon stops the timers of all packets in flight, because the peer is gone.
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
