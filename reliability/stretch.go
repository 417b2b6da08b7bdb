package reliability

import (
	"time"

	"gobtl/internal/mono"
)

// The type stretch grants the peers on long paths more packets than the receive buffer has slots,
// because most of these packets are in transit. If the receiver reads the buffer at least once in
// each interval drain, only the fraction drain / round trip of a peer's granted packets can wait in
// the buffer. Of the granted packets, only the fraction that can wait in the buffer (drain / round
// trip) counts as buffer slots in use. If the round trip is unknown or not longer than drain, each
// packet is counted as a whole buffer slot.
//
//	places = packets x drain / round trip
//
// In each interval of the length drain, all peers together can send no more packets than the
// receive buffer holds. The receive buffer may nevertheless overflow, because a sender may use all
// its credits at once, and the reading process may not run for a while. Each overflow doubles
// drain, which lowers the credits of peers with longer round trips. After drainCalm without an
// overflow of the receive buffer, drain is halved. If the fabric does not count dropped datagrams,
// no peer gets more credits than the buffer has slots.
type stretch struct {
	drain     time.Duration // 0: the fabric does not count overruns
	stretched int           // peers that are granted more packets than slots are booked
	changedAt mono.Time     // when drain was changed
}

const (
	// drainLeast is the initial value of the field drain. A busy machine may delay the reading
	// process by this time.
	drainLeast = time.Millisecond
	// drainMost is the largest value of the field drain, which is longer than any round trip for
	// which extra packets are granted.
	drainMost = time.Second
	// The field drain is doubled at most once in each interval drainEvery, because peers may use
	// old credits for some time after it was doubled.
	drainEvery = 100 * time.Millisecond
	// drainCalm is the time without an overflow of the receive buffer after which drain is halved.
	drainCalm = 10 * time.Second
	// packetsPerPlace bounds the packets granted for each buffer slot, whatever the measured round
	// trip is.
	packetsPerPlace = 512
)

// Stretch gives peers on long paths more credits than the receive buffer has slots. After Stretch,
// the caller must call Overrun when the full receive buffer has dropped datagrams.
func (c *Credits) Stretch() { c.drain = drainLeast }

// Stretches reports whether Stretch was called.
func (c *Credits) Stretches() bool { return c.drain > 0 }

// Stretched reports whether at present the credits of some peer exceed the buffer slots that are
// counted for the peer. While Stretched returns true, the caller must check for overflows of the
// receive buffer.
func (c *Credits) Stretched() bool { return c.stretched > 0 }

// Overrun tells the pool whether the full receive buffer has dropped datagrams in the time between
// the previous call of Overrun and this one.
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

// Drain is the interval in which the receive buffer is assumed to be read at least once. If Drain
// is 0, the peers are granted no more packets than the receive buffer holds.
func (c *Credits) Drain() time.Duration { return c.drain }

// RoundTrip sets the least round trip of the path to the peer, or 0 if the round trip is unknown.
func (r *Receiver) RoundTrip(d time.Duration) { r.path = d }

// Wants reports whether the peer was granted fewer credits than it has earned.
func (r *Receiver) Wants() bool { return r.wants }

// The method longer reports whether the peer's round trip is longer than drain. A packet of a peer
// whose round trip is longer than drain counts as less than one buffer slot. The result path of
// longer is the peer's round trip, but at most packetsPerPlace times drain.
func (c *Credits) longer(r *Receiver) (path time.Duration, yes bool) {
	return min(r.path, packetsPerPlace*c.drain), r.path > c.drain && c.drain > 0
}

// fullPlaces is the number of buffer slots that a number of the peer's full packets take.
func (c *Credits) fullPlaces(r *Receiver, packets uint32) int {
	path, yes := c.longer(r)
	if !yes {
		return int(packets)
	}
	return int((time.Duration(packets)*c.drain + path - 1) / path)
}

// fullPackets is the number of the peer's full packets that fit in a number of buffer slots.
func (c *Credits) fullPackets(r *Receiver, places int) uint32 {
	path, yes := c.longer(r)
	if !yes {
		return uint32(places)
	}
	return uint32(min(time.Duration(min(places, 1<<16))*path/c.drain, 1<<16))
}
