package reliability

import (
	"errors"
	"fmt"
	"time"
)

// WindowMax is the largest send window in packets. WindowDefault is the send window of all profiles
// in packets, equal to WINDOW_SIZE of usnic.
const (
	WindowMax     = 1 << 16
	WindowDefault = 4096
)

const windowLeast = 2

// ackDelayMax is the longest ACK delay that the protocol lets a peer announce.
const ackDelayMax = time.Second

// ErrProfile means that no recovery profile has the given name.
var ErrProfile = errors.New("reliability: unknown recovery profile")

// ErrRules means that a field of Rules is out of its range.
var ErrRules = errors.New("reliability: rule out of range")

// Rules are the parameters of a recovery profile. WithDefaults replaces zero fields by the
// profile's values.
type Rules struct {
	// WindowPackets bounds the packets in flight to one peer. WindowPackets is a power of two
	// from 1 to WindowMax. A send window takes memory for the packets that are in flight, and not
	// for WindowPackets packets.
	WindowPackets int
	// ResendTimeout is how long a sent segment waits for an ACK before the first
	// retransmission. Each further time-out of a packet doubles the time until its next
	// time-out, up to ResendTimeoutMax.
	ResendTimeout, ResendTimeoutMax time.Duration
	// After a retransmission of a segment, duplicate ACKs cause no further retransmission of the
	// segment for the time DupAckHold.
	DupAckHold time.Duration
	// ResendsPerPass bounds the segments retransmitted in one progress call
	// (max_resends_per_iteration of usnic). Thanks to ResendsPerPass, the module also receives
	// packets while many time-outs expire.
	ResendsPerPass int
	// AckDelay is how long an ACK may wait for a packet that can contain the ACK.
	AckDelay time.Duration
	// AckEvery is the number of received packets after which an ACK is sent at once. While the
	// receive queue is empty, an ACK becomes due after a quarter of AckEvery packets. For a sender
	// that waits for each ACK, an ACK becomes due after half of AckEvery packets (Receiver.Pace).
	AckEvery int

	// Adaptive selects loss detection by time and selective ACKs, and time-outs that follow the
	// measured round trip. With Adaptive, ResendTimeout is the time-out until the first round trip
	// has been measured, and DupAckHold is not used. The fields after Adaptive apply only if
	// Adaptive is true.
	Adaptive bool
	// ProbeTimeoutMin is the least time without an ACK before the oldest packet is retransmitted
	// once, as a probe. ResendTimeoutMin is the least time without an ACK before each further
	// retransmission of the oldest packet. ResendTimeoutMin is also the least time before a probe
	// for the first packets after a pause.
	ProbeTimeoutMin, ResendTimeoutMin time.Duration
	// Congestion selects the congestion control. CongestionFixed means no congestion window.
	Congestion string
	// InitialWindow is the initial congestion window in packets, at least 2.
	InitialWindow int
	// TargetDelay is the round trip above which the congestion window is reduced. On a path with a
	// long round trip, the window is reduced above a delay somewhat larger than the round trip
	// without queues. On a path whose least round trips rise and fall from round to round, the
	// window is reduced above a delay of up to five times TargetDelay.
	TargetDelay time.Duration
	// On average, one of WithholdEvery packets is held back, as a test for optimistic ACKs.
	// WithholdEvery is from 16 to 1<<20. A packet that is held back has a sequence number but is
	// sent later than its successors, at most once in a hundred round trips. A peer that
	// acknowledges a packet that was not sent yet violates the protocol.
	WithholdEvery int
}

// The values of Rules.Congestion select a congestion window controlled by delay and loss, or no
// congestion window.
const (
	CongestionDelay = "delay"
	CongestionFixed = "fixed"
)

// Usnic returns the rules of the usnic profile.
func Usnic() Rules {
	return Rules{
		WindowPackets:    WindowDefault,
		ResendTimeout:    100 * time.Millisecond,
		ResendTimeoutMax: 1600 * time.Millisecond,
		DupAckHold:       time.Millisecond,
		ResendsPerPass:   16,
		AckDelay:         50 * time.Microsecond,
		AckEvery:         64,
	}
}

// Lossless returns the rules for a network that delivers every packet, and in order. With the rules
// of the lossless profile, timers expire only for packets that the peer refused for lack of memory.
// ACKs are sent rarely, because they serve no other purpose than to complete sends and to open the
// window.
func Lossless() Rules {
	r := Usnic()
	r.ResendTimeout, r.ResendTimeoutMax = 2*time.Second, 4*time.Second
	r.DupAckHold = time.Second
	r.AckEvery = WindowDefault / 4
	return r
}

// Adaptive returns the rules of the adaptive profile. The adaptive profile has the window and the
// ACK rules of usnic, and its time-outs follow the measured path.
//
// ProbeTimeoutMin and ResendTimeoutMin are far above the round trip of a fast network, because
// the scheduling of the peer's process takes longer than the network.
func Adaptive() Rules {
	r := Usnic()
	r.Adaptive = true
	r.ResendsPerPass = 32
	r.ProbeTimeoutMin, r.ResendTimeoutMin = 250*time.Microsecond, time.Millisecond
	r.Congestion, r.InitialWindow, r.TargetDelay = CongestionDelay, 32, time.Millisecond
	r.WithholdEvery = 8192
	return r
}

// Profiles lists the names that Profile accepts.
func Profiles() []string { return []string{"usnic", "adaptive", "lossless"} }

// Profile returns the rules of the profile with the given name. The error of Profile wraps
// ErrProfile.
func Profile(name string) (Rules, error) {
	switch name {
	case "usnic":
		return Usnic(), nil
	case "adaptive":
		return Adaptive(), nil
	case "lossless":
		return Lossless(), nil
	}
	return Rules{}, fmt.Errorf("%w: %q (known: %v)", ErrProfile, name, Profiles())
}

// WithDefaults returns a copy of r in which each zero field has the value of the same field of d.
func (r Rules) WithDefaults(d Rules) Rules {
	r.WindowPackets = or(r.WindowPackets, d.WindowPackets)
	r.ResendTimeout = or(r.ResendTimeout, d.ResendTimeout)
	r.ResendTimeoutMax = or(r.ResendTimeoutMax, max(d.ResendTimeoutMax, r.ResendTimeout))
	r.DupAckHold = or(r.DupAckHold, d.DupAckHold)
	r.ResendsPerPass = or(r.ResendsPerPass, d.ResendsPerPass)
	r.AckDelay = or(r.AckDelay, d.AckDelay)
	r.AckEvery = or(r.AckEvery, d.AckEvery)
	r.Adaptive = r.Adaptive || d.Adaptive
	r.ProbeTimeoutMin = or(r.ProbeTimeoutMin, d.ProbeTimeoutMin)
	r.ResendTimeoutMin = or(r.ResendTimeoutMin, d.ResendTimeoutMin)
	r.Congestion = or(r.Congestion, d.Congestion)
	r.InitialWindow = or(r.InitialWindow, d.InitialWindow)
	r.TargetDelay = or(r.TargetDelay, d.TargetDelay)
	r.WithholdEvery = or(r.WithholdEvery, d.WithholdEvery)
	return r
}

func or[T comparable](v, d T) T {
	var zero T
	if v != zero {
		return v
	}
	return d
}

// Validate returns an error for the first field of Rules that is out of its range. The error of
// Validate wraps ErrRules.
func (r Rules) Validate() error {
	window := r.WindowPackets
	switch {
	case window < 1 || window > WindowMax || window&(window-1) != 0:
		return fmt.Errorf("%w: window of %d packets (a power of two up to %d)",
			ErrRules, window, WindowMax)
	case r.ResendTimeout < time.Microsecond || r.ResendTimeoutMax < r.ResendTimeout:
		return fmt.Errorf("%w: resend time-out %v up to %v",
			ErrRules, r.ResendTimeout, r.ResendTimeoutMax)
	case r.ResendsPerPass < 1 || r.AckEvery < 1:
		return fmt.Errorf("%w: %d resends per pass, ACK every %d", ErrRules, r.ResendsPerPass, r.AckEvery)
	case r.AckDelay < 0 || r.AckDelay >= min(r.ResendTimeout, ackDelayMax) || r.DupAckHold < 0:
		return fmt.Errorf("%w: ACK delay %v with a resend time-out of %v",
			ErrRules, r.AckDelay, r.ResendTimeout)
	}
	return r.validateAdaptive()
}

func (r Rules) validateAdaptive() error {
	switch {
	case r.Congestion != "" && r.Congestion != CongestionDelay && r.Congestion != CongestionFixed:
		return fmt.Errorf("%w: congestion control %q (known: %s, %s)", ErrRules, r.Congestion,
			CongestionDelay, CongestionFixed)
	case !r.Adaptive:
	case r.ProbeTimeoutMin < time.Microsecond || r.ResendTimeoutMin < r.ProbeTimeoutMin ||
		r.ResendTimeoutMin > r.ResendTimeoutMax:
		return fmt.Errorf("%w: time-outs of at least %v and %v", ErrRules, r.ProbeTimeoutMin,
			r.ResendTimeoutMin)
	case r.InitialWindow < windowLeast || r.InitialWindow > WindowMax ||
		r.TargetDelay < time.Microsecond:
		return fmt.Errorf("%w: initial window of %d packets, target delay %v", ErrRules,
			r.InitialWindow, r.TargetDelay)
	case r.WithholdEvery < withholdLeast || r.WithholdEvery > withholdMost:
		return fmt.Errorf("%w: one of %d packets is withheld (%d to %d)", ErrRules, r.WithholdEvery,
			withholdLeast, withholdMost)
	}
	return nil
}

// The bounds of Rules.WithholdEvery.
const (
	withholdLeast = 16
	withholdMost  = 1 << 20
)

// LoneAckDelay is the longest delay of the ACK of a reply that is the only packet in flight (see
// lone.go). A peer that sends at least 25 requests per second sends the ACK of every lone reply in
// a request.
const LoneAckDelay = 40 * time.Millisecond
