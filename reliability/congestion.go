package reliability

import "time"

// congestion bounds the packets in flight to one peer. Per packet it costs a compare; its decisions
// fall once in a round trip.
//
// The first signal is delay, as in Swift (Kumar et al., SIGCOMM 2020): when even the least round
// trip of a round is above the target, the window shrinks, else it grows. It shrinks to what the
// path holds without a queue, so that the queue empties now and then, and one who has come late
// sees what the path is like; at most by half. The target is the same for everybody whose path is
// short.
//
// Loss is the back-stop. With a queue on the way it shrinks the window too, but never below what
// the path holds without one: draining a queue costs nothing, so random loss may be taken for
// congestion there. Where no queue is seen, more loss than is usual on this path shrinks the window
// by what was lost. What is usual is measured in some rounds after each such step: if the window
// was too large, nothing is lost then.
type congestion struct {
	window  int32 // packets that may be in flight
	slow    bool  // slow start: the window doubles in each round
	limited bool  // the window was what bounded this round
	testing uint8 // rounds until the usual share of lost packets is known
	careful uint8 // rounds for which the window grows by single packets
	acked   int32 // packets delivered in this round
	lost    int32 // packets found lost in this round
	least   time.Duration
	usual   int32    // of shareUnits packets so many are lost as a rule
	tested  [2]int32 // packets lost, and delivered, in this test
}

const (
	windowLeast = 2
	// delayNoise is a delay that need not be a queue: what batches and the peer's scheduler add.
	delayNoise = 250 * time.Microsecond

	shareUnits  = 1 << 12
	shareLeast  = shareUnits / 64 // a share of packets lost that is not worth a reaction
	shareMost   = shareUnits / 16 // a share that is congestion, however usual
	testRounds  = 4
	carefulTime = 16
)

func (c *congestion) init(rules *Rules) {
	*c = congestion{window: int32(rules.InitialWindow), slow: true}
}

// target is the round trip above which the window shrinks.
func target(base time.Duration, rules *Rules) time.Duration {
	return max(rules.TargetDelay, base+base/4+delayNoise)
}

// grow counts packets delivered; in slow start they open the window at once.
func (c *congestion) grow(packets int32, most uint32) {
	c.acked += packets
	if c.slow && c.limited {
		c.window = min(c.window+packets, int32(most))
	}
}

// endRound takes the decision of a round trip.
func (c *congestion) endRound(p *path, rules *Rules, most uint32) {
	share := int32(0)
	if c.lost > 0 {
		share = c.lost * shareUnits / (c.lost + c.acked)
	}
	queue := c.least - p.base
	goal := target(p.base, rules)
	switch {
	case c.least > goal:
		c.drain(p, c.window/2)
	case c.lost > 0 && queue > delayNoise:
		c.drain(p, c.window-c.window/8)
	case c.testing > 0:
		c.test()
	case c.lost > 2 && share > c.usual+c.usual/2+shareLeast:
		c.shrink(c.window - c.window*(share-c.usual)/shareUnits)
		c.testing, c.tested = testRounds, [2]int32{}
	case !c.limited || c.slow:
	case c.careful > 0 || queue > (goal-p.base)/4:
		c.window++
	default:
		c.window += max(1, c.window/16)
	}
	if c.careful > 0 {
		c.careful--
	}
	if share < c.usual {
		c.usual -= (c.usual - share) / 16
	}
	c.window = min(max(c.window, windowLeast), int32(most))
	c.acked, c.lost, c.least, c.limited = 0, 0, 0, false
}

// drain shrinks the window to what is on the path when there is no queue, but not below least.
func (c *congestion) drain(p *path, least int32) {
	c.shrink(max(int32(int64(c.window)*int64(p.base+delayNoise)/int64(c.least)), least))
}

func (c *congestion) shrink(window int32) {
	c.window, c.slow, c.careful = min(window, c.window), false, carefulTime
}

// test notes what was lost in a round of a test.
func (c *congestion) test() {
	c.tested[0] += c.lost
	c.tested[1] += c.acked
	if c.testing--; c.testing == 0 && c.tested[0] > 0 {
		share := int32(int64(c.tested[0]) * shareUnits / int64(c.tested[0]+c.tested[1]))
		c.usual = min(max(c.usual, share), shareMost)
	}
}

// restart begins again after a silence of several time-outs: what was known of the path is old.
func (c *congestion) restart(rules *Rules) {
	c.window, c.slow = min(c.window, int32(rules.InitialWindow)), true
}
