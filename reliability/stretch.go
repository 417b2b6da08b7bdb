package reliability

import (
	"time"

	"gobtl/internal/mono"
)

// stretch lets more packets be on a long path than the receive buffer has places for, for most
// of them are on the way, and not here. A credit comes back as a packet one round trip after it
// was granted at the earliest, and those that were granted one after the other come one after
// the other. So if the buffer is read at least once in each time drain, of the packets that a
// peer may send no more than a share of drain in a round trip wait in it, and so many places are
// booked for them: as if each packet took but a part of one. Where the round trip is no longer
// than drain, or is not known, it takes a whole one, as without all this.
//
//	places = packets x drain / round trip
//
// In other words: all peers together are granted no more than the buffer holds in each time
// drain, whatever their round trips are. That a sender keeps to it is not certain: what it has
// saved up may come at once, and the reader may get no processor for a while. Then datagrams
// find the buffer full, and the fabric counts them. Each time that is seen drain is doubled, so
// that the credits shrink as they are used, for all whose round trips are longer; after a while
// without it is halved. What was lost is sent again as anything that is lost. A fabric that does
// not count has none of it.
type stretch struct {
	drain     time.Duration // 0: the fabric does not say when it is overrun
	stretched int           // peers that are granted more packets than places are booked for them
	changedAt mono.Time     // when drain was
}

const (
	// drainLeast is how long a process that reads what arrives may leave it in the buffer: what a
	// busy machine's scheduler makes of "at once".
	drainLeast = time.Millisecond
	// drainMost is longer than any round trip for which more is granted.
	drainMost = time.Second
	// drainEvery is the time in which drain is doubled once: what was granted before may still come.
	drainEvery = 100 * time.Millisecond
	// drainCalm is how long nothing must be lost before it is halved.
	drainCalm = 10 * time.Second
	// packetsPerPlace bounds what is granted for each place, however long the path is or seems.
	packetsPerPlace = 512
)

// Stretch lets peers on long paths have more credits than there are places. The caller sees to it
// that Overrun is called when datagrams were lost for want of room.
func (c *Credits) Stretch() { c.drain = drainLeast }

// Stretches says whether Stretch was called, and Stretched whether a peer has more credits than
// places now: then an overrun is to be looked for.
func (c *Credits) Stretches() bool { return c.drain > 0 }

// Stretched is told at Stretches.
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

// Drain is the time in which the buffer is taken to be read once, at least; 0: nothing is granted
// beyond what it holds.
func (c *Credits) Drain() time.Duration { return c.drain }

// RoundTrip tells how long the path to the peer and back is, at least; 0 if that is not known.
func (r *Receiver) RoundTrip(d time.Duration) { r.path = d }

// Wants says whether the peer was granted less than it has earned.
func (r *Receiver) Wants() bool { return r.wants }

// longer says whether packets of a peer take less than a place each, and how long its path counts.
func (c *Credits) longer(r *Receiver) (path time.Duration, yes bool) {
	return min(r.path, packetsPerPlace*c.drain), r.path > c.drain && c.drain > 0
}

// fullPlaces is how many places so many full packets of a peer take.
func (c *Credits) fullPlaces(r *Receiver, packets uint32) int {
	path, yes := c.longer(r)
	if !yes {
		return int(packets)
	}
	return int((time.Duration(packets)*c.drain + path - 1) / path)
}

// fullPackets is how many full packets of a peer so many places are for.
func (c *Credits) fullPackets(r *Receiver, places int) uint32 {
	path, yes := c.longer(r)
	if !yes {
		return uint32(places)
	}
	return uint32(min(time.Duration(min(places, 1<<16))*path/c.drain, 1<<16))
}
