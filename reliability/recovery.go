package reliability

import (
	"time"

	"gobtl/internal/mono"
)

// Recovery is the state shared by the Senders of a module. Recovery consists of the module's
// segments, and of the timers of the module's profile.
type Recovery struct {
	Segments
	rules   Rules
	profile profile
}

// profile is the interface between a recovery profile and its module, for work done once in each
// progress call or for each expired timer.
type profile interface {
	// join gives a Sender its policy; see Recovery.Join.
	join(s *Sender, peerDelay time.Duration, selective bool)
	// expire handles expired timers; see Recovery.Expire.
	expire(now mono.Time) *Sender
	// deadline is when the next timer expires.
	deadline() mono.Time
	// running is the number of timers that run.
	running() int
	// spare: see Recovery.Spare.
	spare(behind bool) bool
	counts() Counts
	checkTimers() error
	// stopIdle: see Recovery.StopIdle.
	stopIdle()
}

// NewRecovery allocates the state of count segments (1 to SegmentsMax), and of the timers that
// these segments and up to peers Senders need. All segments are free at first. Only Join allocates
// memory later. The error of NewRecovery wraps ErrRules or hotel.ErrConfig.
func NewRecovery(count, peers int, rules Rules) (*Recovery, error) {
	if err := rules.Validate(); err != nil {
		return nil, err
	}
	segs, err := newSegments(count)
	if err != nil {
		return nil, err
	}
	r := &Recovery{Segments: segs, rules: rules}
	if rules.Adaptive {
		r.profile, err = newAdaptive(peers, &r.rules)
	} else {
		r.profile, err = newUsnic(&r.Segments, &r.rules)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Join makes the profile recover the packets that a Sender admits from now on. The Sender must be
// fresh from Init. The peer may delay an ACK by peerDelay. The argument selective of Join says
// whether the peer sends selective ACKs. A Sender that has not joined can only count packets
// (Sender.Count).
func (r *Recovery) Join(s *Sender, peerDelay time.Duration, selective bool) {
	s.segs = &r.Segments
	r.profile.join(s, peerDelay, selective)
	s.updateSendLimit()
}

// Spare reports whether due timers should be deferred until the next progress call. A profile with
// short time-outs defers timers if the module is behind, because ACKs that would stop the timers
// may have arrived unread.
func (r *Recovery) Spare(behind bool) bool { return r.profile.spare(behind) }

// Expire moves the segments whose time-out is over to the resend list. Expire returns a Sender
// whose window may have opened, or nil if there is none. After a Sender was returned, Expire must
// be called again.
func (r *Recovery) Expire(now mono.Time) *Sender { return r.profile.expire(now) }

// StopIdle makes a Sender's timer stop when nothing is in flight, for an owner that sleeps until
// Deadline. By default the timer keeps running, because reusing the timer for the next packet is
// cheaper than a restart.
func (r *Recovery) StopIdle() { r.profile.stopIdle() }

// Deadline is when Expire next has work. Deadline is mono.Never if no timer runs.
func (r *Recovery) Deadline() mono.Time { return r.profile.deadline() }

// Timers is the number of running timers, each of which takes a room of the hotel. In the profiles
// usnic and lossless there is a timer for each posted segment. In the profile adaptive there is at
// most one timer for each Sender, and the timer may run for a while after all packets are
// acknowledged.
func (r *Recovery) Timers() int { return r.profile.running() }

// Counts returns the counters of the profile.
func (r *Recovery) Counts() Counts { return r.profile.counts() }

// Check walks all state and reports the first broken invariant. Check is for tests and simulators.
func (r *Recovery) Check() error {
	if err := r.check(); err != nil {
		return err
	}
	return r.profile.checkTimers()
}
