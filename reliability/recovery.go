package reliability

import (
	"time"

	"gobtl/internal/mono"
)

// Recovery is the state shared by the Senders of a module: its segments, and the timers of its
// profile.
type Recovery struct {
	Segments
	rules   Rules
	profile profile
}

// profile is the interface of a recovery profile to its module, for each pass or expired timer.
type profile interface {
	// join gives a Sender its policy; see Recovery.Join.
	join(s *Sender, peerDelay time.Duration, selective bool)
	// expire handles expired timers; see Recovery.Expire.
	expire(now mono.Time) *Sender
	// deadline is when the next timer runs out.
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

// NewRecovery allocates the state of count segments (1 to SegmentsMax), all free, and of the timers
// that they and up to peers Senders need by the rules. Nothing is allocated later but by Join. The
// error wraps ErrRules or hotel.ErrConfig.
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

// Join makes the profile recover the packets that a Sender, fresh from Init, admits from now on.
// The peer may delay an ACK by peerDelay; selective says whether its ACKs are selective. A Sender
// that has not joined can only count packets (Sender.Count).
func (r *Recovery) Join(s *Sender, peerDelay time.Duration, selective bool) {
	s.segs = &r.Segments
	r.profile.join(s, peerDelay, selective)
	s.updateSendLimit()
}

// Spare says whether due timers should be deferred by one pass. A profile with short time-outs
// defers them if the module is behind, as ACKs that would stop them may have arrived unread.
func (r *Recovery) Spare(behind bool) bool { return r.profile.spare(behind) }

// Expire moves the segments whose time-out is over to the resend list. It returns a Sender whose
// window may have opened, and must then be called again; nil if there is none.
func (r *Recovery) Expire(now mono.Time) *Sender { return r.profile.expire(now) }

// StopIdle makes a Sender's timer stop when nothing is in flight, for an owner that sleeps until
// Deadline. By default the timer keeps running: mostly the next packet reuses it, which is cheaper.
func (r *Recovery) StopIdle() { r.profile.stopIdle() }

// Deadline is when Expire next has work; mono.Never if no timer runs.
func (r *Recovery) Deadline() mono.Time { return r.profile.deadline() }

// Timers is the number of timers that run, each in a room of the hotel: in the profiles usnic and
// lossless one for each posted segment; in adaptive at most one for each Sender, which may run
// for a while when nothing is in flight any more.
func (r *Recovery) Timers() int { return r.profile.running() }

// Counts returns what was counted so far.
func (r *Recovery) Counts() Counts { return r.profile.counts() }

// Check walks all state and reports the first broken invariant. It is for tests and simulators.
func (r *Recovery) Check() error {
	if err := r.check(); err != nil {
		return err
	}
	return r.profile.checkTimers()
}
