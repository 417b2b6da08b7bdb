package reliability

import (
	"time"

	"gobtl/internal/mono"
)

// stretch grants more packets on a long path than the receive buffer has places, as most of them
// are in transit. A credit comes back as a packet one round trip after its grant at the earliest,
// and credits granted in sequence come back in sequence. So if the buffer is read at least once in
// each interval drain, only the fraction drain / round trip of a peer's granted packets can wait in
// it. That many places are booked for them, as if each packet took a part of one. Where the round
// trip is no longer than drain, or is not known, it takes a whole one, as without all this.
//
//	places = packets x drain / round trip
//
// In other words: all peers together are granted no more than the buffer holds in each time
// drain, whatever their round trips are. This is not guaranteed: a sender may use saved credits at
// once, and the reader may not be scheduled for a while. Then datagrams find the buffer full, and
// the fabric counts them. At each such overrun drain is doubled, so that the credits of peers with
// longer round trips shrink as they are used; after a while without overruns drain is halved.
// Dropped packets are retransmitted like other lost ones. With a fabric that does not count
// overruns, stretch is off.
type stretch struct {
	drain     time.Duration // 0: the fabric does not say when it is overrun
	stretched int           // peers that are granted more packets than places are booked for them
	changedAt mono.Time     // when drain was
}

const (
	// drainLeast is the least assumed time that arrived packets stay in the buffer of a reading
	// process: a scheduling delay of a busy machine.
	drainLeast = time.Millisecond
	// drainMost is longer than any round trip for which extra packets are granted.
	drainMost = time.Second
	// drainEvery is the interval in which drain is doubled at most once, as earlier credits may
	// still be used.
	drainEvery = 100 * time.Millisecond
	// drainCalm is the time without an overrun after which drain is halved.
	drainCalm = 10 * time.Second
	// packetsPerPlace bounds what is granted for each place, however long the path is or seems.
	packetsPerPlace = 512
)

// Stretch lets peers on long paths have more credits than there are places. The caller must call
// Overrun when datagrams were lost for lack of room.
func (c *Credits) Stretch() { c.drain = drainLeast }

// Stretches says whether Stretch was called, and Stretched whether a peer has more credits than
// places now: then the caller must check for overruns.
func (c *Credits) Stretches() bool { return c.drain > 0 }

// Stretched is explained at Stretches.
func (c *Credits) Stretched() bool { return c.stretched > 0 }

// Overrun tells that datagrams found the buffer full, or that none did lately.
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

// Drain is the interval in which the buffer is assumed to be read at least once; 0: no credits
// beyond the buffer are granted.
func (c *Credits) Drain() time.Duration { return c.drain }

// RoundTrip sets the least round trip of the path to the peer; 0 if it is not known.
func (r *Receiver) RoundTrip(d time.Duration) { r.path = d }

// Wants says whether the peer was granted less than it has earned.
func (r *Receiver) Wants() bool { return r.wants }

// longer says whether a peer's packets take less than a place each, and returns its round trip for
// that.
func (c *Credits) longer(r *Receiver) (path time.Duration, yes bool) {
	return min(r.path, packetsPerPlace*c.drain), r.path > c.drain && c.drain > 0
}

// fullPlaces is the number of places that a number of the peer's full packets take.
func (c *Credits) fullPlaces(r *Receiver, packets uint32) int {
	path, yes := c.longer(r)
	if !yes {
		return int(packets)
	}
	return int((time.Duration(packets)*c.drain + path - 1) / path)
}

// fullPackets is the number of the peer's full packets that fit a number of places.
func (c *Credits) fullPackets(r *Receiver, places int) uint32 {
	path, yes := c.longer(r)
	if !yes {
		return uint32(places)
	}
	return uint32(min(time.Duration(min(places, 1<<16))*path/c.drain, 1<<16))
}
