package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// The functions of this file adjust the congestion window to the measured delay, and measure the
// delay of the path while its queues are empty.

// sample processes a new round-trip sample of packet n. The network's part of the round trip lies
// between the arguments least and most of sample, and the argument next is the next packet number
// to be sent. If the peer's process was asleep, both the lower and the upper bound of the network's
// part of the round trip may be wrong, because the peer cannot tell how long the packet waited in
// its receive queue.
func (c *congestion) sample(now mono.Time, least, most time.Duration, p *path, n, next seq.Num,
	rules *Rules,
) {
	high := c.target(p.base, p.jitter, rules)
	if c.slow {
		high = max(rules.TargetDelay+c.wobble.room(rules), p.base+p.base/8+delayNoise+p.jitter)
	}
	known := most <= high || least > high || most-least <= unreadLeast
	over := max(least-p.base, 0)
	if known && (c.least == 0 || over < c.least-c.base) {
		c.least, c.base, c.jitter = p.base+over, p.base, p.jitter
	}
	drains := c.drains(most, p)
	if n.Before(c.calm) || c.unhalved != 0 {
		return
	}
	if drains {
		c.beginDip(p)
		return
	}
	switch {
	case !known:
		return
	case least <= high:
		c.above = 0
		return
	case c.above == 0:
		c.aboveMin, c.aboveAt = over, now
	}
	c.aboveMin = min(c.aboveMin, over)
	c.above++
	enough := aboveLeast + min(aboveJitter, int32(p.jitter/(delayNoise/4)))
	switch {
	case c.slow && c.above >= max(aboveMax, enough):
		c.shrink(max(min(c.window, c.flight), c.window/2))
		c.above, c.calm, c.ramp = 0, next, spreadTime
		c.beginDip(p)
		c.overshot = c.unhalved >= fitLeast
	case !c.slow && !c.compete && c.above >= enough && now.Sub(c.aboveAt) >= p.base/2:
		holds := c.holds(p, c.aboveMin, c.wobble.room(rules))
		c.shrink(max(holds-holds/8, c.window/4, windowLeast))
		c.peak, c.above, c.calm, c.met, c.ramp = holds, 0, next, true, spreadTime
	}
}

// The method named holds returns the number of packets that the path can have in transit while its
// queues are empty. The argument over of holds is the present delay minus the delay with empty
// queues.
func (c *congestion) holds(p *path, over, room time.Duration) int32 {
	own := p.base + p.jitter
	over = max(over, room)
	return max(int32(int64(c.window)*int64(own+room)/int64(own+over)), windowLeast)
}

// The method dip reduces the congestion window to a fraction for two round trips, if the full
// window has limited the sender at some time after the previous dip. The first round trip of a dip
// drains the queue at the bottleneck, and the second round trip measures the delay of the path with
// an empty queue. The interval between dips (short reductions of the window) grows as long as no
// dip measures a lower round trip than before.
func (c *congestion) dip(p *path, took time.Duration) bool {
	c.rounds = min(c.rounds, 254) + 1
	switch {
	case c.unhalved != 0:
		if c.overshot {
			c.fit(p, took)
		}
		if c.rounds < dipRounds {
			return true
		}
		c.dipAfter, c.vain = 2*min(c.dipAfter, dipMost/2), min(c.vain, vainMost)+1
		if p.base < c.dipBase-max(c.dipBase/16, (delayNoise+p.jitter)/8) {
			own := p.base + p.jitter
			c.unhalved = max(int32(int64(c.unhalved)*int64(own)/int64(c.dipBase+p.jitter)), windowLeast)
			c.dipAfter, c.vain = dipLeast, 0
		}
		c.window, c.unhalved, c.ramp = c.unhalved, 0, spreadTime
		c.skip, c.counted, c.queued = skipRounds, [2]int32{}, 0
	case c.met && c.rounds >= c.dipAfter:
		c.beginDip(p)
	default:
		return false
	}
	return true
}

// drains reports whether the measured round trip shows that the queue at the bottleneck is
// emptying, because another sender dips or has stopped. The argument most of drains is the upper
// bound of the network's part of the round trip. The method drains returns true if this round trip
// is clearly shorter than the latest round trips, all of which showed a queue.
func (c *congestion) drains(most time.Duration, p *path) bool {
	low := c.low[1]
	if c.low[0] == 0 {
		c.low[0] = most // the first of these rounds
	} else {
		low = min(low, c.low[0])
		c.low[0] = min(c.low[0], most)
	}
	noise := (delayNoise + p.jitter) / 8
	return !c.slow && !c.compete && c.rounds >= dipLeast && low > p.base+delayNoise+p.jitter &&
		most < low-noise
}

// beginDip reduces the congestion window to a fraction for some round trips. If the credits limit
// the sender more than the window does, the new window is a fraction of the packets in flight.
func (c *congestion) beginDip(p *path) {
	c.unhalved, c.dipBase, c.rounds, c.met, c.overshot = c.window, p.base, 0, false, false
	c.window = max(min(c.window, c.flight)/dipDepth, windowLeast)
}

// fit estimates the path's capacity from the packets delivered in the last round trip of
// slow start. The argument took of fit is the duration of the last round trip of slow
// start. The method fit does not change small congestion windows.
func (c *congestion) fit(p *path, took time.Duration) {
	c.overshot = false
	holds := int64(c.acked) * int64(p.base+p.jitter) / int64(max(took, 1))
	c.unhalved = int32(min(max(holds+holds/8, int64(c.unhalved/4)), int64(c.unhalved)))
	c.peak = c.unhalved
}

// The method blame records how many lost packets have caused the present reduction of the
// congestion window.
func (c *congestion) blame(lost int32) {
	c.blamed, c.excused, c.undo, c.undoSlow = lost, 0, c.window, c.slow
}

// The method excuse subtracts packets from the losses that blame recorded, because these packets
// have arrived late. If most of the packets recorded as lost have arrived late, excuse restores the
// congestion window.
func (c *congestion) excuse(packets int32) {
	c.lost = max(c.lost-packets, 0)
	c.counted[1] = max(c.counted[1]-packets, 0)
	if c.blamed == 0 {
		return
	}
	if c.excused += packets; c.excused > c.blamed/2 {
		c.blamed, c.slow, c.testing = 0, c.undoSlow, false
		if c.unhalved != 0 {
			c.unhalved = max(c.unhalved, c.undo)
			return
		}
		c.window = max(c.window, c.undo)
	}
}
