package reliability

import (
	"time"

	"gobtl/internal/mono"
)

// Recovery is the state of loss recovery that all Senders of a module share.
type Recovery struct {
	Segments
	rules   Rules
	profile profile
}

// The interface "profile" has the methods of a recovery profile that concern all Senders of a
// module, such as the expiry of timers.
type profile interface {
	expire(now mono.Time) *Sender
	deadline() mono.Time
	// The method "running" returns the number of running timers.
	running() int
	counts() Counts
	checkTimers() error
	// See Recovery.StopIdle.
	stopIdle()
}

// NewRecovery allocates the state of "count" send segments (1 to SegmentsMax), and the timers for
// at most "peers" peers. All segments are free at first. An error of NewRecovery wraps ErrRules or
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
		r.adaptive, err = newAdaptive(peers, &r.rules)
		r.profile = r.adaptive
	} else {
		r.usnic, err = newUsnic(&r.Segments, &r.rules)
		r.profile = r.usnic
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Join connects a Sender with the loss recovery of the profile. The caller must call Join after
// Sender.Init, before any other use of the Sender. The argument peerDelay of Join is the longest
// ACK delay of the peer. The argument "selective" of Join says whether the peer sends selective
// acknowledgements. A Sender for which Join was not called can only count packets (Sender.Count).
func (r *Recovery) Join(s *Sender, peerDelay time.Duration, selective bool) {
	s.segs = &r.Segments
	s.policy, s.selective = policy{peerDelay: peerDelay}, selective && r.adaptive != nil
	s.updateSendLimit()
}

// Expire queues each segment whose time-out has expired for retransmission. Expire returns a Sender
// that can possibly send more packets than before the call, or nil if there is no such Sender. The
// caller must repeat the call of Expire until the result is nil.
func (r *Recovery) Expire(now mono.Time) *Sender { return r.profile.expire(now) }

// StopIdle makes each Sender stop its timer when no packet is in flight. A program that sleeps
// until Deadline calls StopIdle, so that the timers of idle Senders do not wake it. Without
// StopIdle, the timer of an idle Sender keeps running, so that the next packet does not have to
// start it.
func (r *Recovery) StopIdle() { r.profile.stopIdle() }

// Deadline returns the time at which Expire must be called next. Deadline is mono.Never if no timer
// runs.
func (r *Recovery) Deadline() mono.Time { return r.profile.deadline() }

// Timers returns the number of running timers. In the profiles usnic and lossless, each posted
// segment has a timer. In the profile adaptive, each Sender has at most one timer, which can keep
// running for a while after all packets of the Sender have been acknowledged.
func (r *Recovery) Timers() int { return r.profile.running() }

// Counts returns the counters of the profile.
func (r *Recovery) Counts() Counts { return r.profile.counts() }

// Check returns an error if the segments or timers violate an invariant, and nil otherwise. Check
// is for tests and simulators.
func (r *Recovery) Check() error {
	if err := r.check(); err != nil {
		return err
	}
	return r.profile.checkTimers()
}
