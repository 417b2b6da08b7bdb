package reliability

import (
	"math/bits"
	"time"
)

// congestion bounds the packets in flight to one peer. Per packet it costs a compare; its decisions
// fall once in a round trip.
//
// The first signal is delay, as in Swift (Kumar et al., SIGCOMM 2020): when even the least round
// trip of a round is above the target, the window shrinks, else it grows. It shrinks to what the
// path holds without a queue, at most by half. The target is the same for everybody whose path is
// short. Now and then a window that has met the target is halved for a moment: who came late, and
// took a queue for the path's own delay, learns better (as with BBR's probes of the round trip).
//
// Loss is the back-stop. With a queue on the way it shrinks the window too, but never below what
// the path holds without one: draining a queue costs nothing, so random loss may be taken for
// congestion there. Where no queue is seen, more loss than is usual on this path has packets paced
// (see pacer), and if that does not help shrinks the window by what was lost and some more. What is
// usual is measured after each such step: if the window was too large, less is lost then.
type congestion struct {
	window   int32         // packets that may be in flight
	unhalved int32         // the window before it was halved for a moment; 0: it is not
	slow     bool          // slow start: the window doubles in each round
	limited  bool          // the window, or the pace, was what bounded this round
	met      bool          // the target, since the window was halved last
	compete  bool          // others fill the queue, whatever this side does: only loss counts
	testing  bool          // what is counted will be the usual loss
	spread   uint8         // rounds for which packets are paced still
	above    int32         // round trips measured one after the other that are clearly above base
	peak     int32         // the window that was too large last
	rounds   uint8         // since the window was halved, or made whole again
	skip     uint8         // rounds in which losses were caused by the window of before
	pressed  uint16        // rounds above the target with next to no window; in competition, all
	acked    int32         // packets delivered in this round
	lost     int32         // packets found lost in this round
	least    time.Duration // round trip of this round
	base     time.Duration // the path's own, of the channel where it was measured
	before   int32         // the window before the test
	flight   int32         // packets on their way when the round began
	share    int32         // what was lost before the test
	usual    int32         // of shareUnits packets so many are lost as a rule
	counted  [2]int32      // packets delivered, and lost, since that was judged last
}

const (
	// delayNoise is a delay that need not be a queue: what batches and the peer's scheduler add.
	delayNoise = 250 * time.Microsecond

	shareUnits  = 1 << 12
	shareLeast  = shareUnits / 40 // a share of packets lost that is not worth a reaction
	shareMost   = shareUnits / 16 // one that is congestion, however usual
	shareSlow   = shareUnits / 8  // one that ends slow start
	aboveMax    = 8               // samples
	judgeAfter  = 512             // packets
	testRounds  = 8               // of the test what loss is usual, at least, where no delay tells
	judgeLost   = 4               // packets lost beyond twice the usual
	floodLeast  = 16              // packets lost in a round of slow start, beyond an eighth
	skipRounds  = 2
	pressedMax  = 8
	competeTime = 256
	halfEvery   = 64
	spreadTime  = 255 // rounds
)

func (c *congestion) init(rules *Rules) {
	*c = congestion{window: int32(rules.InitialWindow), slow: true, rounds: halfEvery * 3 / 4}
}

// target is the round trip above which the window shrinks.
func target(base time.Duration, rules *Rules) time.Duration {
	return max(rules.TargetDelay, base+base/4+delayNoise)
}

// sample takes a measured round trip. Slow start ends when several are clearly above base: one may
// be of a packet that was held back.
func (c *congestion) sample(rtt, base time.Duration, rules *Rules) {
	if c.least == 0 || rtt < c.least {
		c.least, c.base = rtt, base
	}
	if rtt <= max(rules.TargetDelay, base+base/8+delayNoise) {
		c.above = 0
	} else if c.above = min(c.above+1, aboveMax); c.above >= aboveMax && c.slow {
		c.slow, c.peak = false, c.window
		c.window = max(min(c.window, c.flight), c.window/2) // before this round's doubling
	}
}

// grow counts packets delivered; in slow start they open the window at once.
func (c *congestion) grow(packets int32, most uint32) {
	c.acked += packets
	if c.slow && c.limited && !c.flooded() {
		c.window = min(c.window+packets, int32(most))
	}
}

// flooded says whether in slow start so much is lost that the window must be too large.
func (c *congestion) flooded() bool { return c.skip == 0 && c.lost > floodLeast+c.acked/8 }

// leaveSlow ends slow start when much of what was on its way at the beginning of the round, which
// took that long, is lost, or missing: the window becomes what the path holds.
func (c *congestion) leaveSlow(took time.Duration) bool {
	if !c.slow || !c.flooded() && (c.flight < 2*floodLeast || c.acked+c.lost > c.flight*3/4) {
		return false
	}
	if took > 4*max(c.least, c.base) {
		c.least = took // it has stood still meanwhile
	}
	// What was delivered has filled the queue, too.
	holds := int64(c.acked) * int64(c.base) / int64(max(c.least, c.base, 1))
	c.shrink(max(int32(holds)*7/8, c.window/4))
	c.peak = max(c.window, c.acked)
	c.skip, c.counted = skipRounds, [2]int32{}
	return true
}

// endRound takes the decision of a round trip, which took that long.
func (c *congestion) endRound(rules *Rules, most int32, took time.Duration) {
	if c.skip > 0 {
		c.skip--
	} else if !c.compete {
		c.counted[0] += c.acked
		c.counted[1] += c.lost
	}
	goal := target(c.base, rules)
	c.press(goal)
	switch {
	case c.compete:
		if c.lost > 0 {
			c.shrink(c.window - c.window*3/10)
		} else if c.limited {
			c.window++
		}
	case c.leaveSlow(took):
	case c.half():
	case c.least > goal:
		c.met = true
		c.drain(c.window / 2)
	case c.unusual() && c.least > c.base+delayNoise:
		c.drain(c.window - c.window/8)
	case c.judge():
	case !c.limited || c.slow || c.testing:
	case c.least-c.base > (goal-c.base)/4:
		c.window += max(root(c.window)/4, 1)
	default:
		c.window += c.step()
	}
	if c.spread > 0 {
		c.spread--
	}
	c.window = min(max(c.window, windowLeast), most)
	c.acked, c.lost, c.least, c.limited = 0, 0, 0, false
}

// step is by how much the window grows in a round. That goes by its square root, so that of several
// the small ones catch up, and faster where it was larger already. On a path so short that no delay
// tells of a queue it is less near the window with which too much was lost last, on either side.
func (c *congestion) step() int32 {
	most := max(min(root(c.window), c.window/8), 1)
	below := (c.peak - c.window) / 4
	if c.base >= delayNoise {
		return max(most, min(below, c.window/8))
	}
	if below <= 0 {
		below = min((c.window-c.peak)/4, c.window*c.window/512)
	}
	step := max(min(below, max(most, c.window/8)), most/4)
	if step <= 1 && c.spread%2 == 1 {
		return 0 // of a small window one packet is much
	}
	return max(step, 1)
}

func root(n int32) int32 { return 1 << (bits.Len32(uint32(n)) / 2) }

// unusual says whether clearly more was lost in this round than is lost as a rule.
func (c *congestion) unusual() bool {
	return int64(c.lost-judgeLost)*shareUnits > 2*int64(c.usual)*int64(c.acked+c.lost)
}

// press finds out whether somebody else fills the queue, who heeds loss alone (TCP does): the delay
// stays far above the target though this side has next to nothing on the way. Then this side does
// as they do, for a while, and as long as the queue does not empty.
func (c *congestion) press(goal time.Duration) {
	switch {
	case c.compete:
		if c.pressed++; c.pressed >= competeTime || c.least != 0 && c.least < goal {
			c.compete, c.pressed, c.counted = false, 0, [2]int32{}
		}
	case c.least > 2*goal && c.window <= 2*windowLeast:
		if c.pressed++; c.pressed >= pressedMax {
			c.compete, c.pressed, c.counted = true, 0, [2]int32{}
		}
	default:
		c.pressed = 0
	}
}

// half halves a window that has met the target, for two rounds: one to get there, one to see.
func (c *congestion) half() bool {
	c.rounds = min(c.rounds, 254) + 1
	switch {
	case c.unhalved != 0:
		if c.rounds >= 2 {
			c.window, c.unhalved, c.rounds = c.unhalved, 0, 0
		}
		return true
	case c.met && c.rounds >= halfEvery:
		c.window, c.unhalved, c.rounds, c.met = c.window/2, c.window, 0, false
		return true
	}
	return false
}

// drain shrinks the window to what is on the path when there is no queue, but not below least.
func (c *congestion) drain(least int32) {
	c.shrink(max(int32(int64(c.window)*int64(c.base+delayNoise)/int64(c.least)), least))
	c.peak = c.window // as much as the path holds
}

func (c *congestion) shrink(window int32) {
	last := c.peak
	if c.peak = c.window; c.peak < last {
		c.peak -= c.peak / 8 // others have come
	}
	c.window, c.slow = min(window, c.window), false
}

// judge shrinks a window with which more is lost than usual, and looks if less is lost then. If
// so the window was too large, and is made smaller still while that helps; if not the path loses
// that much, and the window is as large again as before.
func (c *congestion) judge() bool {
	total := c.counted[0] + c.counted[1]
	expected := int32(int64(total) * int64(c.usual) / shareUnits)
	many := c.counted[1] > 2*expected+judgeLost
	if c.testing {
		// That is never usual.
		many = int64(c.counted[1]) > int64(total)*shareMost/shareUnits+2*judgeLost
	}
	enough := int32(judgeAfter)
	if c.testing && c.base < delayNoise {
		enough = max(enough, testRounds*c.window) // else a large window is as large again before others
	}
	if total < enough && !many || total == 0 {
		return false
	}
	share := int32(int64(c.counted[1]) * shareUnits / int64(total))
	lost, before := c.counted[1], int32(int64(total)*int64(c.share)/shareUnits)
	first := c.spread == 0
	c.counted = [2]int32{}
	if many {
		c.spread = spreadTime
	}
	switch {
	case many && first && !c.testing && share < shareSlow:
		return true // that may be enough
	case c.testing && lost+judgeLost > before-before/4 && share < shareMost:
		c.testing, c.usual = false, share
		c.window, c.peak = max(c.window, c.before), 0
		return true
	case c.testing && many:
	case c.testing:
		c.testing, c.usual = false, min(share, shareMost)
		return false
	case !many || c.slow && share < shareSlow:
		c.usual -= max(c.usual-share, 0) / 16
		return false
	}
	c.before, c.share = c.window, share
	excess := c.window*(share-c.usual)/shareUnits + c.window/8
	c.shrink(max(min(c.window-excess, c.window*7/10), c.window/2))
	c.testing, c.skip = true, skipRounds
	return true
}

// restart begins again after a silence of several time-outs: what was known of the path is old.
// What is found lost next was sent before, and what is on its way mostly is not any more.
func (c *congestion) restart(rules *Rules) {
	c.window, c.unhalved, c.slow = min(c.window, int32(rules.InitialWindow)), 0, true
	c.skip, c.flight, c.above, c.counted, c.testing = skipRounds, 0, 0, [2]int32{}, false
}
