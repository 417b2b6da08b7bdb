package reliability

import (
	"errors"
	"fmt"
	"time"
)

// WindowMax is the largest send window in packets. WindowDefault is the send window of all profiles
// in packets, the same as WINDOW_SIZE in Open MPI's usnic BTL.
const (
	WindowMax     = 1 << 16
	WindowDefault = 4096
)

const windowLeast = 2

// ackDelayMax is the longest ACK delay that the protocol allows a peer to announce.
const ackDelayMax = time.Second

// ErrProfile means that the given name is not the name of a recovery profile.
var ErrProfile = errors.New("reliability: unknown recovery profile")

// ErrRules means that a field of Rules is out of its range.
var ErrRules = errors.New("reliability: rule out of range")

// Rules are the parameters of a recovery profile. The method WithDefaults replaces zero fields by
// the values of a profile.
type Rules struct {
	// WindowPackets is the size of the send window to one peer, in packets. WindowPackets is a power
	// of two from 1 to WindowMax. A large value of WindowPackets by itself takes no memory, because
	// the memory of a send window grows with the number of packets in flight.
	WindowPackets int
	// ResendTimeout is the time from the first transmission of a segment to its first retransmission
	// if no ACK arrives. Each retransmission of a segment doubles the segment's time-out, up to
	// ResendTimeoutMax.
	ResendTimeout, ResendTimeoutMax time.Duration
	// DupAckHold is the time after a retransmission of a segment in which duplicate ACKs do not cause
	// a second retransmission of this segment.
	DupAckHold time.Duration
	// ResendsPerPass is the largest number of segments that are retransmitted in one progress call
	// (max_resends_per_iteration of usnic). The limit on retransmissions in one progress call lets the
	// module receive packets even if many time-outs occur at the same time.
	ResendsPerPass int
	// AckDelay is the longest time for which an ACK is delayed, in the hope that a packet with data
	// can carry the ACK.
	AckDelay time.Duration
	// AckEvery is the number of unacknowledged packets after which the receiver sends an ACK
	// immediately. If the receive queue is empty, the receiver can send an ACK when a quarter of
	// AckEvery packets are unacknowledged. If the sender seems to wait for each ACK, the receiver
	// sends an ACK for each AckEvery/2 packets (see Receiver.Pace).
	AckEvery int

	// If Adaptive is true, losses are detected by time and selective ACKs, and time-outs depend on the
	// measured round trip. If Adaptive is true, ResendTimeout applies only until the first round trip
	// has been measured, and DupAckHold has no effect. The fields of Rules after Adaptive apply only
	// if Adaptive is true.
	Adaptive bool
	// ProbeTimeoutMin is the minimum time without an ACK before the sender retransmits the oldest
	// packet in flight as a probe. ResendTimeoutMin is the minimum time without an ACK before each
	// retransmission of the oldest packet after the probe. For the first packets after a pause,
	// ResendTimeoutMin is the minimum time before the probe as well.
	ProbeTimeoutMin, ResendTimeoutMin time.Duration
	// Congestion selects the congestion control. CongestionFixed means no congestion window.
	Congestion string
	// InitialWindow is the initial congestion window in packets, at least 2.
	InitialWindow int
	// TargetDelay is the round trip above which the congestion window is reduced, except on long paths
	// and on paths with irregular round trips. On a path with a long propagation delay, the congestion
	// window is reduced only if the round trip is somewhat longer than the round trip with empty
	// queues. On a path whose round trips rise and fall irregularly without a queue, the congestion
	// window is reduced only above a round trip of up to five times TargetDelay.
	TargetDelay time.Duration
	// To detect a peer that acknowledges packets which it has not received (optimistic ACKs), the
	// sender holds back one of WithholdEvery packets on average. The range of WithholdEvery is 16 to
	// 1<<20. "To hold back a packet" means to give it a sequence number, but to send packets with
	// higher sequence numbers before it. In each hundred round trips, the sender holds back at most
	// one packet (gives it a number, but sends later packets before it). A peer that acknowledges a
	// packet before it was sent violates the protocol.
	WithholdEvery int
}

// The constants below are the values of Rules.Congestion. CongestionDelay means a congestion window
// that is controlled by delay and loss, and CongestionFixed means no congestion window.
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

// Lossless returns the rules for a network that loses and reorders no packets. In the profile
// lossless, time-outs occur only if the peer has refused a packet for lack of memory. In the
// profile lossless, few ACKs are sent, because ACKs are needed only to complete sends and to
// advance the send window.
func Lossless() Rules {
	r := Usnic()
	r.ResendTimeout, r.ResendTimeoutMax = 2*time.Second, 4*time.Second
	r.DupAckHold = time.Second
	r.AckEvery = WindowDefault / 4
	return r
}

// Adaptive returns the rules of the adaptive profile. The profile adaptive has the same send window
// and the same ACK rules as the profile usnic, but the time-outs of the profile adaptive depend on
// the measured round trip.
//
// ProbeTimeoutMin and ResendTimeoutMin are much longer than the round trip of a fast network,
// because the operating system can delay the peer's process by more than a round trip.
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

// Profile returns the rules of the recovery profile with the given name, or an error that wraps
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

// WithDefaults returns a copy of the Rules r in which each zero field has the value of the same
// field of d.
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

// Validate returns nil if each field of Rules is in its range, and otherwise an error that wraps
// ErrRules.
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

// LoneAckDelay is the longest delay of the ACK of a lone reply, which is a reply that was the only
// packet in flight (see lone.go). With at least 25 requests per second, the next request arrives
// within LoneAckDelay and carries the ACK of the lone reply.
const LoneAckDelay = 40 * time.Millisecond
