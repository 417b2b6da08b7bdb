package reliability

import (
	"errors"
	"fmt"
	"time"
)

// WindowMax is the largest send window in packets: usnic's WINDOW_SIZE.
const WindowMax = 4096

// ackDelayMax is the longest ACK delay that the protocol lets a peer announce.
const ackDelayMax = time.Second

// ErrProfile: no recovery profile of that name.
var ErrProfile = errors.New("reliability: unknown recovery profile")

// ErrRules: a number of Rules is out of its range.
var ErrRules = errors.New("reliability: rule out of range")

// Rules are the numbers that a recovery profile works with. Zero fields take the profile's value.
type Rules struct {
	// WindowPackets bounds the packets in flight to one peer: a power of two, 1 to WindowMax.
	WindowPackets int
	// ResendTimeout is how long a posted segment waits for its ACK before it is sent again, and
	// ResendTimeoutMax where doubling it with every further time-out ends.
	ResendTimeout, ResendTimeoutMax time.Duration
	// DupAckHold is how long a segment that was already sent again is left alone by duplicate ACKs,
	// so that the ACKs which left before the copy arrived do not ask for a third one.
	DupAckHold time.Duration
	// ResendsPerPass bounds the segments sent again in one pass of the progress loop, so that a burst
	// of time-outs cannot keep the module from receiving (usnic's max_resends_per_iteration).
	ResendsPerPass int
	// AckDelay is how long an ACK may wait for a packet to ride on.
	AckDelay time.Duration
	// AckEvery is the number of packets after which an ACK waits no longer.
	AckEvery int
}

// Usnic returns the rules of the usnic profile.
func Usnic() Rules {
	return Rules{
		WindowPackets:    WindowMax,
		ResendTimeout:    100 * time.Millisecond,
		ResendTimeoutMax: 1600 * time.Millisecond,
		DupAckHold:       time.Millisecond,
		ResendsPerPass:   16,
		AckDelay:         50 * time.Microsecond,
		AckEvery:         64,
	}
}

// Lossless returns the rules for a network that delivers everything, in order, by itself. Their
// timers do not run out in life: they are left for what the peer could not take when it came, for
// want of memory. ACKs do no more than complete sends and open the window, so there are few.
func Lossless() Rules {
	r := Usnic()
	r.ResendTimeout, r.ResendTimeoutMax = 2*time.Second, 4*time.Second
	r.DupAckHold = time.Second
	r.AckEvery = WindowMax / 4
	return r
}

// Profiles lists the names that Profile knows.
func Profiles() []string { return []string{"usnic", "lossless"} }

// Profile returns the rules of a profile by its name.
func Profile(name string) (Rules, error) {
	switch name {
	case "usnic":
		return Usnic(), nil
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
	return r
}

func or[T int | time.Duration](v, d T) T {
	if v != 0 {
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
	return nil
}
