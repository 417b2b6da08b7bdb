package reliability

import (
	"time"

	"gobtl/internal/mono"
)

// Recovery is the state that the Senders of a module share.
type Recovery struct {
	Segments
	rules   Rules
	profile profile
}

// profile is the interface between a recovery profile and its module, for work that is done once
// per progress call or per expired timer.
type profile interface {
	join(s *Sender, peerDelay time.Duration, selective bool)
	expire(now mono.Time) *Sender
	deadline() mono.Time
	// The method running returns the number of timers that are running.
	running() int
	counts() Counts
	checkTimers() error
	// See Recovery.StopIdle.
	stopIdle()
}

// NewRecovery allocates the state of the send segments (count, from 1 to SegmentsMax) and of the
// timers of the Senders (at most peers). At first all segments are free. The methods of a Recovery
// allocate no further memory, except Join. The error of NewRecovery wraps ErrRules or
// hotel.ErrConfig.
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

// Join gives a fresh Sender the loss recovery of the profile. The Sender must not have been used
// after its Init. The argument peerDelay of Join is the longest ACK delay of the peer. The argument
// selective of Join says whether the peer sends selective ACKs. Without Join, a Sender can do no
// more than count packets (Sender.Count).
func (r *Recovery) Join(s *Sender, peerDelay time.Duration, selective bool) {
	s.segs = &r.Segments
	r.profile.join(s, peerDelay, selective)
	s.updateSendLimit()
}

// Expire puts the segments whose time-out has passed on the retransmission list. Expire returns a
// Sender that may again be allowed to send, or nil if there is none. If Expire returned a Sender,
// the caller must call Expire again.
func (r *Recovery) Expire(now mono.Time) *Sender { return r.profile.expire(now) }

// StopIdle makes a Sender stop its timer when nothing is in flight, for an owner that sleeps until
// Deadline. Without StopIdle the timer keeps running, because reusing a running timer is cheaper
// than a restart.
func (r *Recovery) StopIdle() { r.profile.stopIdle() }

// Deadline returns the time at which Expire has work next. Deadline is mono.Never if no timer
// runs.
func (r *Recovery) Deadline() mono.Time { return r.profile.deadline() }

// Timers returns the number of running timers. In the profiles usnic and lossless there is a
// timer for each posted segment. In the profile adaptive there is at most one timer for each
// Sender, which may run for a while after all packets are acknowledged.
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
