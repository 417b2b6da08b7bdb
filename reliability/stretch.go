package reliability

import (
	"time"

	"gobtl/internal/mono"
)

// The type "stretch" gives peers with long round trips more credits than the receive buffer has
// slots, because most of their packets are in transit. The field "drain" is an interval in which
// the receiver is expected to empty its receive buffer at least once. Of the packets that a peer
// may send in one round trip, at most the fraction drain / round trip can be in the receive buffer
// at the same time. For a peer whose round trip is longer than the interval "drain", only the
// fraction drain / round trip of the peer's credits counts as buffer slots in use. If a peer's
// round trip is unknown or not longer than the interval "drain", each of its credits counts as a
// whole buffer slot.
//
//	places == packets x drain / round trip
//
// The pool limits the credits of all peers so that the packets that arrive during an interval of
// the length "drain" fit in the receive buffer. The receive buffer can still overflow if a sender
// uses all its credits in one burst, or if the process that reads the buffer does not run for a
// while. An overflow of the receive buffer doubles the field "drain", which lowers the credits of
// peers with long round trips. If the receive buffer has not overflowed for the time drainCalm, the
// field "drain" is halved. If the fabric cannot count dropped datagrams, peers with long round
// trips get no additional credits.
type stretch struct {
	drain     time.Duration // 0: the fabric does not count overruns
	stretched int           // peers that have more credits than booked slots
	changedAt mono.Time     // when drain was changed
}

const (
	// drainLeast is the initial and the lowest value of the field "drain". On a busy machine, the
	// operating system can delay the process that reads the receive buffer by about drainLeast.
	drainLeast = time.Millisecond
	// drainMost is the largest value of the field "drain". A peer whose round trip is shorter than the
	// interval "drain" gets no additional credits.
	drainMost = time.Second
	// The field "drain" is doubled at most once in each interval drainEvery, because peers can still
	// use credits that were granted before the field was doubled.
	drainEvery = 100 * time.Millisecond
	// drainCalm is the time without an overflow of the receive buffer after which the field "drain" is
	// halved.
	drainCalm = 10 * time.Second
	// packetsPerPlace is the largest number of credits per buffer slot, however long the measured
	// round trip is.
	packetsPerPlace = 512
)

// Stretch makes the pool give peers with long round trips more credits than the receive buffer has
// slots. After Stretch, the caller must report by Overrun whether the receive buffer has overflowed
// and dropped datagrams.
func (c *Credits) Stretch() { c.drain = drainLeast }

// Stretches reports whether Stretch was called.
func (c *Credits) Stretches() bool { return c.drain > 0 }

// Stretched reports whether any peer has more credits than buffer slots at present. While Stretched
// returns true, the caller must watch for overflows of the receive buffer.
func (c *Credits) Stretched() bool { return c.stretched > 0 }

// Overrun reports to the pool whether the receive buffer has overflowed and dropped datagrams since
// the previous call of Overrun. The argument "lost" of Overrun says whether the receive buffer has
// dropped datagrams.
func (c *Credits) Overrun(now mono.Time, lost bool) {
	since := now.Sub(c.changedAt)
	switch {
	case lost && (since >= drainEvery || c.changedAt == 0):
		c.drain, c.changedAt = min(2*c.drain, drainMost), now
	case lost:
	case since >= drainCalm && c.drain > drainLeast:
		c.drain, c.changedAt = max(c.drain/2, drainLeast), now
	}
}

// Drain returns the interval in which the pool expects the receive buffer to be emptied at least
// once. Drain returns 0 if Stretch was not called.
func (c *Credits) Drain() time.Duration { return c.drain }

// RoundTrip records the lowest round trip of the path to the peer, where 0 means that the round
// trip is unknown.
func (r *Receiver) RoundTrip(d time.Duration) { r.path = d }

// The method "stretched" reports whether the peer has more credits than buffer slots. The method
// "stretched" returns false for a peer with a single credit, even if this credit takes no buffer
// slot (see lapsedShare and the type "hosts").
func (r *Receiver) stretched() bool { return r.charged > max(r.booked, 1) }

// Wants reports whether the peer has earned more credits than it got from the latest call of Grant.
func (r *Receiver) Wants() bool { return r.wants }

// The method "longer" reports whether the peer's round trip is longer than the interval "drain", so
// that each of the peer's credits counts as less than one buffer slot. The result "path" of the
// method "longer" is the peer's round trip, but at most packetsPerPlace times the interval "drain".
func (c *Credits) longer(r *Receiver) (path time.Duration, yes bool) {
	return min(r.path, packetsPerPlace*c.drain), r.path > c.drain && c.drain > 0
}

// fullPackets returns how many full-sized packets of the peer fit in the given number of buffer
// slots.
func (c *Credits) fullPackets(r *Receiver, places int) uint32 {
	path, yes := c.longer(r)
	if !yes {
		return uint32(places)
	}
	return uint32(min(time.Duration(min(places, 1<<16))*path/c.drain, 1<<16))
}
