package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// The functions in this file adjust the congestion window to the measured delay. To measure the
// round trip while the path's queues are empty, functions in this file reduce the congestion window
// from time to time.

// The method "sample" processes a new round-trip sample of packet n. The arguments "least" and
// "most" of the method "sample" are a lower and an upper bound for the round trip, not counting the
// time that packet n waited in the peer's receive queue. The argument "next" of the method "sample"
// is the next sequence number to be sent. The two bounds for the round trip can be far apart if the
// peer's process was asleep, because the peer then does not know how long the packet waited in the
// receive queue.
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

// The method "holds" estimates how many packets the path can have in transit without a queue (the
// bandwidth-delay product). The argument "over" of the method "holds" is the difference between the
// present round trip and the round trip with empty queues.
func (c *congestion) holds(p *path, over, room time.Duration) int32 {
	own := p.base + p.jitter
	over = max(over, room)
	return max(int32(int64(c.window)*int64(own+room)/int64(own+over)), windowLeast)
}

// The method "dip" begins and ends dips. A dip is a reduction of the congestion window to a
// fraction for two round trips. A dip (a short reduction of the congestion window) is necessary
// only if the window has limited the sender since the previous dip. In the first round trip with
// the reduced congestion window, the queue at the bottleneck drains. In the second round trip with
// the reduced congestion window, the sender measures the round trip with an empty queue. If the
// sender measures no clearly lower round trip during a dip (a short reduction of the congestion
// window) than before the dip, the interval until the next dip is doubled, up to a limit.
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

// The method "drains" reports whether the measured round trip shows that the queue at the
// bottleneck is emptying, for example because a competing sender has stopped or reduced its window.
// The argument "most" of the method "drains" is an upper bound for the measured round trip without
// the time in the peer's receive queue. The queue counts as emptying if all recent round trips
// showed a queue, and the newly measured round trip is clearly shorter than each of them.
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

// beginDip begins a dip, which means that the sender reduces the congestion window to a fraction
// for some round trips. If fewer packets are in flight than the congestion window permits, the
// reduced window is a fraction of the packets in flight instead of a fraction of the window.
func (c *congestion) beginDip(p *path) {
	c.unhalved, c.dipBase, c.rounds, c.met, c.overshot = c.window, p.base, 0, false, false
	c.window = max(min(c.window, c.flight)/dipDepth, windowLeast)
}

// fit estimates the path's capacity from the packets delivered in the last round trip of slow
// start, which had the duration "took". When the present dip (a short reduction of the window)
// ends, the congestion window is set to the estimated capacity. The method "fit" is not called for
// small congestion windows.
func (c *congestion) fit(p *path, took time.Duration) {
	c.overshot = false
	holds := int64(c.acked) * int64(p.base+p.jitter) / int64(max(took, 1))
	c.unhalved = int32(min(max(holds+holds/8, int64(c.unhalved/4)), int64(c.unhalved)))
	c.peak = c.unhalved
}

// The method "blame" is called before a reduction of the congestion window because of loss, and
// records the number of lost packets that have caused the reduction.
func (c *congestion) blame(lost int32) {
	c.blamed, c.excused, c.undo, c.undoSlow = lost, 0, c.window, c.slow
}

// The method "excuse" corrects the counts of lost packets when packets that were declared lost have
// arrived after all. The method "excuse" undoes the latest reduction of the congestion window if
// more than half of the packets whose loss caused the reduction have arrived after all.
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
