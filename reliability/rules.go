package reliability

import (
	"errors"
	"fmt"
	"time"
)

// WindowMax is the largest send window in packets, and WindowDefault the one of all profiles:
// usnic's WINDOW_SIZE.
const (
	WindowMax     = 1 << 16
	WindowDefault = 4096
)

// windowLeast is the smallest congestion window in packets.
const windowLeast = 2

// ackDelayMax is the longest ACK delay that the protocol lets a peer announce.
const ackDelayMax = time.Second

// ErrProfile: no recovery profile of that name.
var ErrProfile = errors.New("reliability: unknown recovery profile")

// ErrRules: a number of Rules is out of its range.
var ErrRules = errors.New("reliability: rule out of range")

// Rules are the parameters of a recovery profile. Zero fields take the profile's value.
type Rules struct {
	// WindowPackets bounds the packets in flight to one peer: a power of two, 1 to WindowMax. The
	// cost of a window depends on its used part.
	WindowPackets int
	// ResendTimeout is how long a posted segment waits for its ACK before it is sent again, and
	// ResendTimeoutMax the bound of its doubling with every further time-out.
	ResendTimeout, ResendTimeoutMax time.Duration
	// DupAckHold is how long a segment that was already sent again is left alone by duplicate ACKs,
	// so that ACKs sent before the copy arrived do not cause a third transmission.
	DupAckHold time.Duration
	// ResendsPerPass bounds the segments sent again in one pass of the progress loop, so that a burst
	// of time-outs cannot keep the module from receiving (usnic's max_resends_per_iteration).
	ResendsPerPass int
	// AckDelay is how long an ACK may wait for a packet to be piggybacked on.
	AckDelay time.Duration
	// AckEvery is the number of packets after which an ACK is sent at once. A quarter of that
	// suffices when nothing more is there to receive, and half for a sender that waits for each ACK
	// (Receiver.Pace).
	AckEvery int

	// Adaptive says that loss is found by time and selective ACKs, that time-outs follow the measured
	// round trip (ResendTimeout is their first guess), and that the fields below are in force.
	// DupAckHold is then not used.
	Adaptive bool
	// ProbeTimeoutMin is the least wait for an answer before the oldest packet is retransmitted
	// once. ResendTimeoutMin is the least wait before further retransmissions, and for the first
	// packets after a pause.
	ProbeTimeoutMin, ResendTimeoutMin time.Duration
	// Congestion selects the congestion control: CongestionDelay, or CongestionFixed for none, on
	// networks that do not need it.
	Congestion string
	// InitialWindow is the congestion window to begin with, in packets, at least 2.
	InitialWindow int
	// TargetDelay is the round trip up to which queueing on the path is accepted; on a long path
	// the target is somewhat above the path's own delay.
	TargetDelay time.Duration
	// WithholdEvery is the average number of packets per withheld one, of which there is at most
	// one in a hundred round trips: a peer that acknowledges a withheld packet is lying. 16 to
	// 1<<20.
	WithholdEvery int
}

// Values of Rules.Congestion.
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

// Lossless returns the rules for a network that delivers everything, in order, by itself. Their
// timers do not expire in practice: they remain for packets that the peer refused for lack of
// memory. ACKs only complete sends and open the window, so there are few.
func Lossless() Rules {
	r := Usnic()
	r.ResendTimeout, r.ResendTimeoutMax = 2*time.Second, 4*time.Second
	r.DupAckHold = time.Second
	r.AckEvery = WindowDefault / 4
	return r
}

// Adaptive returns the rules of the adaptive profile: usnic's window and ACKs, with a recovery that
// follows the path.
//
// ProbeTimeoutMin and ResendTimeoutMin are far above the round trip of a fast network, because they
// wait for a process: scheduling takes longer than a network. The former is shorter, as an
// occasional spurious packet costs next to nothing.
func Adaptive() Rules {
	r := Usnic()
	r.Adaptive = true
	r.ResendsPerPass = 32
	r.ProbeTimeoutMin, r.ResendTimeoutMin = 250*time.Microsecond, time.Millisecond
	r.Congestion, r.InitialWindow, r.TargetDelay = CongestionDelay, 32, time.Millisecond
	r.WithholdEvery = 8192
	return r
}

// Profiles lists the names that Profile knows.
func Profiles() []string { return []string{"usnic", "adaptive", "lossless"} }

// Profile returns the rules of a profile by its name.
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

// WithDefaults returns r with its zero fields taken from d.
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

// Validate reports the first number out of range.
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

// LoneAckDelay is the longest delay of the ACK of a lone answer: a peer that sends at least 25
// requests a second sends no such ACK as a packet of its own.
const LoneAckDelay = 40 * time.Millisecond
