package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// This file adjusts the congestion window by delay, and measures the path's delay without a queue.

// sample takes a new round-trip sample of packet n. The arguments least and most of sample bound
// the network's part of the round trip, and next is the next number to be sent. A peer that sleeps
// until a packet comes cannot tell how long the packet has waited, and then neither bound may hold.
func (c *congestion) sample(now mono.Time, least, most time.Duration, p *path, n, next seq.Num,
	rules *Rules,
) {
	high := target(p.base, p.jitter, rules)
	if c.slow {
		high = max(rules.TargetDelay, p.base+p.base/8+delayNoise+p.jitter)
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
		// the window before this round's doubling
		c.shrink(max(min(c.window, c.flight), c.window/2))
		c.above, c.calm, c.ramp = 0, next, spreadTime
		c.beginDip(p)
		c.overshot = c.unhalved >= fitLeast
	case !c.slow && !c.compete && c.above >= enough && now.Sub(c.aboveAt) >= p.base/2:
		holds := c.holds(p, c.aboveMin)
		c.shrink(max(holds-holds/8, c.window/4, windowLeast))
		c.peak, c.above, c.calm, c.met, c.ramp = holds, 0, next, true, spreadTime
	}
}

// holds is the part of the window that the path holds without a queue, if a queue adds the delay
// over.
func (c *congestion) holds(p *path, over time.Duration) int32 {
	own := p.base + p.jitter
	return max(int32(int64(c.window)*int64(own)/int64(own+over)), windowLeast)
}

// dip shrinks the window for two rounds if the window has met a limit since the last dip. The first
// round of a dip drains the queue, and the second round measures the round trip. A sender that took
// a queue for the path's own delay thus learns the true delay, and all other senders in that queue
// learn the true delay, too (like the round-trip probes of BBR). The interval between dips grows
// while dips bring no new minimum.
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

// drains reports whether a round trip shows that the queue empties, because another sender dips or
// has stopped. The argument most bounds the part of the round trip that was spent in the network.
// The round trip must be clearly below the round trips of the latest rounds, and all latest rounds
// must have had a queue. If this sender now dips too, the queue empties completely and the path's
// own delay shows. A dip by only one of many senders achieves little.
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

// beginDip divides the window for some rounds. If credits are the limit, beginDip divides the
// number of packets in flight.
func (c *congestion) beginDip(p *path) {
	c.unhalved, c.dipBase, c.rounds, c.met, c.overshot = c.window, p.base, 0, false, false
	c.window = max(min(c.window, c.flight)/dipDepth, windowLeast)
}

// fit estimates the path's capacity from the packets delivered in the round in which slow start has
// filled path and queue. The argument took of fit is the duration of the round that fit uses. When
// slow start ends, the window is twice too large, and would overrun the queue again after the dip.
// Small windows are not changed. If many senders share a queue, each late sender takes the queue
// for part of the path, and only an overrun corrects all senders.
func (c *congestion) fit(p *path, took time.Duration) {
	c.overshot = false
	holds := int64(c.acked) * int64(p.base+p.jitter) / int64(max(took, 1))
	c.unhalved = int32(min(max(holds+holds/8, int64(c.unhalved/4)), int64(c.unhalved)))
	c.peak = c.unhalved
}

// blame records the losses for which the window is shrunk.
func (c *congestion) blame(lost int32) {
	c.blamed, c.excused, c.undo, c.undoSlow = lost, 0, c.window, c.slow
}

// excuse subtracts packets that were late instead of lost. If most of the losses for which the
// window was shrunk were late packets, excuse restores the window.
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
