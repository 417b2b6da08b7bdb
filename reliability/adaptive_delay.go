package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// What delay tells of the window, and how a sender finds out what its path's own delay is.

// sample takes a round trip measured now, of packet n, of which the network took at least and at
// most so long; next is the next to be sent. (A peer that sleeps until something comes cannot tell
// how long that has waited for it: of such a sample neither may be true.)
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
		c.shrink(max(min(c.window, c.flight), c.window/2)) // before this round's doubling
		c.above, c.calm, c.ramp = 0, next, spreadTime
		c.beginDip(p)
		c.overshot = c.unhalved >= fitLeast
	case !c.slow && !c.compete && c.above >= enough && now.Sub(c.aboveAt) >= p.base/2:
		holds := c.holds(p, c.aboveMin)
		c.shrink(max(holds-holds/8, c.window/4, windowLeast))
		c.peak, c.above, c.calm, c.met, c.ramp = holds, 0, next, true, spreadTime
	}
}

// holds is the part of the window that the path holds without a queue, where it is longer by over.
func (c *congestion) holds(p *path, over time.Duration) int32 {
	own := p.base + p.jitter
	return max(int32(int64(c.window)*int64(own)/int64(own+over)), windowLeast)
}

// dip shrinks the window for two rounds, one to get there, one to see, when it has met a limit
// since that was done last. Who has taken a
// queue for the path's own delay learns better, and so do all others whose packets wait there (BBR
// probes the round trip so). The more often nothing new was learnt the longer is the wait for the
// next time.
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

// drains says whether a round trip, of which the network took at most so long, is clearly less than
// any of the latest rounds, all of which had a queue: somebody else divides his window, or has
// gone. Who does the same now helps to empty the queue, and sees what is behind it; for one alone
// of many it is not worth much.
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

// beginDip divides the window for some rounds, or what was on its way, where credits allow no more.
func (c *congestion) beginDip(p *path) {
	c.unhalved, c.dipBase, c.rounds, c.met, c.overshot = c.window, p.base, 0, false, false
	c.window = max(min(c.window, c.flight)/dipDepth, windowLeast)
}

// fit finds out what the path holds by what came of it in the round, which took that long, in which
// slow start has filled it, and the queue: by then the window is twice too large, and would overrun
// the queue again after the dip. (A small window is left alone. Where many share the queue, each
// late one takes it for the path; an overrun is what tells them all.)
func (c *congestion) fit(p *path, took time.Duration) {
	c.overshot = false
	holds := int64(c.acked) * int64(p.base+p.jitter) / int64(max(took, 1))
	c.unhalved = int32(min(max(holds+holds/8, int64(c.unhalved/4)), int64(c.unhalved)))
	c.peak = c.unhalved
}

// blame notes for what the window is shrunk.
func (c *congestion) blame(lost int32) {
	c.blamed, c.excused, c.undo, c.undoSlow = lost, 0, c.window, c.slow
}

// excuse takes back what was done for packets that were not lost but late, as some turn out to be.
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
