package reliability

import (
	"math/bits"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// congestion bounds the packets in flight to one peer. It costs a comparison per packet; its
// decisions are made once in a round trip.
//
// The first signal is delay. The window shrinks when consecutive round trips, several of them and
// over half of a base round trip, exceed the target; it does not shrink again before packets sent
// after that have arrived. Else it grows. That is the standing queue of Copa (Arun and
// Balakrishnan, NSDI 2018), with the steps of Swift (Kumar et al., SIGCOMM 2020): all senders that
// share a queue see it at once, shrink by the same share, to somewhat below the path's capacity,
// and grow by the same step, so that their windows converge. They are paced then: the first packets
// of a burst see no queue, which would favour bursty senders. Per-packet jitter (path.vary) is no
// queue, and is added to the target.
//
// Now and then a window that has met the target is divided for a moment, so that a late sender,
// which took a queue for the path's own delay, measures the true one (as with BBR's probes of the
// round trip; Cardwell et al., ACM Queue 2016). A sender that sees a new minimal round trip
// restarts its own interval of such probes: so the senders synchronise, and the queue empties.
//
// Loss is the second signal. While a queue is seen, loss shrinks the window too, but never below
// the path's capacity: draining a queue costs nothing, so there random loss may be treated as
// congestion. Without a queue, more loss than usual on this path first turns pacing on (see pacer);
// if that does not help, the window shrinks by the lost packets and some more. The usual loss is
// measured after each such step: if the window was too large, the loss is then lower.
type congestion struct {
	window   int32            // packets that may be in flight
	unhalved int32            // the window before it was halved for a moment; 0: it is not
	slow     bool             // slow start: the window doubles in each round
	overshot bool             // unhalved is where slow start was when delay ended it
	limited  bool             // the window, or the pace, was what bounded this round
	compete  bool             // others fill the queue, whatever this side does: only loss counts
	testing  bool             // what is counted will be the usual loss
	spread   uint8            // rounds for which packets are paced still
	above    int32            // round trips above the target, one after the other
	aboveMin time.Duration    // the least of them, above base
	aboveAt  mono.Time        // when the first of them was measured
	calm     seq.Num          // what was sent before tells nothing of the window as it is
	peak     int32            // the window that was too large last
	rounds   uint8            // since the window was divided, or base was less
	ramp     uint8            // rounds for which packets are paced still
	easy     uint8            // since the window was shrunk
	dipAfter uint8            // rounds until it is halved next, at least
	vain     uint8            // times that it was halved lately, and nothing new was learnt
	met      bool             // a limit, since then
	dipBase  time.Duration    // base before the window was halved
	low      [2]time.Duration // least round trip of these lowRounds, or 0, and of those before
	lowFor   uint8            // of these, so many are over
	skip     uint8            // rounds in which losses were caused by the window of before
	pressed  uint16           // rounds above the target with next to no window; in competition, all
	acked    int32            // packets delivered in this round
	lost     int32            // packets found lost in this round
	least    time.Duration    // round trip of this round
	base     time.Duration    // the path's own, of the channel where it was measured
	jitter   time.Duration    // and by how much longer packets take there without a queue
	before   int32            // the window before the test
	flight   int32            // packets on their way when the round began
	share    int32            // what was lost before the test
	usual    int32            // of shareUnits packets so many are lost as a rule
	counted  [2]int32         // packets delivered, and lost, since that was judged last
	queued   int32            // rounds with a queue, less those without, since then
	blamed   int32            // packets lost for which the window was shrunk last
	excused  int32            // of these, such that had only been late
	undo     int32            // the window before
	undoSlow bool
}

const (
	// delayNoise is a delay that need not be a queue: batching, and the peer's scheduler, add as
	// much.
	delayNoise = 250 * time.Microsecond

	shareUnits  = 1 << 12
	shareMost   = shareUnits / 16 // one that is congestion, however usual
	shareSlow   = shareUnits / 8  // one that ends slow start
	aboveMax    = 8               // samples that end slow start
	aboveLeast  = 3               // samples above the target that shrink the window
	aboveJitter = 13              // as many more where delay varies
	usualLittle = shareUnits / 256
	judgeLeast  = 64
	judgeRounds = 32
	judgeAfter  = 512 // packets
	testRounds  = 24  // of the test what loss is usual, at least, where no delay tells
	judgeLost   = 4   // packets lost beyond twice the usual
	floodLeast  = 16  // packets lost in a round of slow start, beyond an eighth
	skipRounds  = 2
	pressedMax  = 32
	competeTime = 256
	dipLeast    = 16 // rounds
	dipNext     = 64
	dipMost     = 128
	dipDepth    = 4
	dipRounds   = 2
	vainMost    = 2
	lowRounds   = 32
	fitLeast    = 64                   // packets
	spreadTime  = 255                  // rounds
	rampLeast   = 4 * time.Microsecond // between packets, for which pacing is worth a timer
	stepPer     = 2 * time.Millisecond
	stepDouble  = 8 // rounds
)

func (c *congestion) init(rules *Rules) {
	*c = congestion{window: int32(rules.InitialWindow), slow: true, dipAfter: dipNext}
}

// target is the round trip above which the window shrinks.
func target(base, jitter time.Duration, rules *Rules) time.Duration {
	return max(rules.TargetDelay, base+base/4+delayNoise+jitter)
}

// grow counts packets delivered; in slow start they open the window at once.
func (c *congestion) grow(packets int32, most uint32) {
	c.acked += packets
	if c.slow && c.limited && !c.flooded() {
		c.window = min(c.window+packets, int32(most))
	}
}

// flooded says whether slow start has lost so many packets that the window must be too large.
func (c *congestion) flooded() bool { return c.skip == 0 && c.lost > floodLeast+c.acked/8 }

// leaveSlow ends slow start when many of the packets in flight at the begin of the round, of
// duration took, are lost or missing: the window becomes the path's capacity.
func (c *congestion) leaveSlow(took time.Duration) bool {
	if !c.slow || !c.flooded() && (c.flight < 2*floodLeast || c.acked+c.lost > c.flight*3/4) {
		return false
	}
	if took > 4*max(c.least, c.base) {
		c.least = took // it has stood still meanwhile
	}
	// The delivered packets have filled the queue, too.
	holds := int64(c.acked) * int64(c.base) / int64(max(c.least, c.base, 1))
	c.blame(c.lost)
	c.shrink(max(int32(holds)*7/8, c.window/4))
	c.peak = max(c.window, c.acked)
	c.skip, c.counted = skipRounds, [2]int32{}
	return true
}

// endRound makes the decision of a round, which has taken the time took.
func (c *congestion) endRound(rules *Rules, p *path, most int32, took time.Duration) {
	if c.skip > 0 {
		c.skip--
	} else if !c.compete {
		c.counted[0] += c.acked
		c.counted[1] += c.lost
	}
	goal := target(c.base, c.jitter, rules)
	if c.lowFor++; c.lowFor >= lowRounds {
		c.low, c.lowFor = [2]time.Duration{0, c.low[0]}, 0
	}
	if c.least > c.base+c.jitter+delayNoise {
		c.queued++
		c.met = c.met || !c.limited // others have filled the queue up to what bounds this side
	} else if c.least != 0 {
		c.queued--
	}
	c.press(goal)
	slow := c.slow
	switch {
	case c.dip(p, took):
	case c.compete:
		c.ramp = spreadTime
		if c.lost > 0 {
			c.met = true
			c.shrink(c.window - c.window*3/10)
		} else if c.limited {
			c.window++
		}
	case c.leaveSlow(took):
	case c.unusual() && c.least > c.base+delayNoise:
		c.drain(c.window - c.window/8)
		c.met = true
	case c.judge():
		c.met = true
		c.hasten(slow)
	case !c.limited || c.slow || c.testing:
	case c.least-c.base > (goal-c.base)/4:
		c.window += max(c.step()/4, 1)
	default:
		c.window += c.step()
	}
	c.spread -= min(c.spread, 1)
	c.ramp -= min(c.ramp, 1)
	c.easy = min(c.easy, 254) + 1
	c.window = min(max(c.window, windowLeast), most)
	c.acked, c.lost, c.least, c.limited = 0, 0, 0, false
}

// hasten advances the next dip when the window has just shrunk for unusual loss: many may share the
// queue. An overrun by slow start is no evidence of that, and repeated dips without a new minimum
// are not hastened: in a short queue they cost a tenth of the line rate.
func (c *congestion) hasten(slow bool) {
	if c.easy == 0 && !slow && c.share >= shareMost && c.vain < vainMost {
		c.dipAfter = dipLeast
	}
}

// step is the growth of the window in a round. It depends on the path's length, and on the square
// root of the window, so that small windows catch up. After a while the step increases, as the path
// may have much more capacity; below an earlier window size it is larger. On a path too short to
// show a queue by its delay, the step is smaller around the window that last lost too many packets.
// It is also smaller where the queue is too short to show by delay: where much was lost, though
// usually next to nothing is.
func (c *congestion) step() int32 {
	most := 1 + int32(min(c.base/stepPer, 64))
	most = max(most, 1<<(bits.Len32(uint32(c.window))/2)) // its square root
	if c.window > c.peak+c.peak/4 {
		most = max(most, min(most<<min(c.easy/stepDouble, 8), c.window/8))
	}
	most = max(min(most, c.window/2), 1)
	below := (c.peak - c.window) / 4
	if c.base+c.jitter >= delayNoise {
		if c.spread > 0 && c.usual < usualLittle {
			most /= 2
		}
		return max(most, min(below, c.window/8), 1)
	}
	if below <= 0 {
		below = min((c.window-c.peak)/4, int32(int64(c.window)*int64(c.window)/512))
	}
	step := max(min(below, max(most, c.window/8)), most/4)
	if step <= 1 && c.spread%2 == 1 {
		return 0 // of a small window one packet is much
	}
	return max(step, 1)
}

// unusual says whether this round's loss is clearly above the usual loss.
func (c *congestion) unusual() bool {
	return int64(c.lost-judgeLost)*shareUnits > 2*int64(c.usual)*int64(c.acked+c.lost)
}

// press detects a competing sender that fills the queue and reacts only to loss (as TCP does): the
// delay stays far above the target though this side has next to nothing in flight. Then this side
// reacts only to loss too, for a while, and as long as the queue does not empty.
func (c *congestion) press(goal time.Duration) {
	switch {
	case c.compete:
		if c.pressed++; c.pressed >= competeTime || c.least != 0 && c.least < goal {
			c.compete, c.pressed, c.counted = false, 0, [2]int32{}
		}
	case c.least > 3*goal && c.window <= 2*windowLeast:
		if c.pressed++; c.pressed >= pressedMax {
			c.compete, c.pressed, c.counted = true, 0, [2]int32{}
		}
	default:
		c.pressed = 0
	}
}

// drain shrinks the window to the path's capacity without a queue, but not below least.
func (c *congestion) drain(least int32) {
	c.shrink(max(int32(int64(c.window)*int64(c.base+delayNoise)/int64(c.least)), least))
	c.peak = c.window // as much as the path holds
}

func (c *congestion) shrink(window int32) {
	last := c.peak
	if c.peak = c.window; c.peak < last {
		c.peak -= c.peak / 8 // others have come
	}
	c.window, c.slow, c.easy = min(window, c.window), false, 0
}

// judge shrinks a window whose loss is above the usual, and checks whether the loss falls. If so
// the window was too large, and is shrunk further while that helps; if not, that loss is the
// path's, and the window is restored.
func (c *congestion) judge() bool {
	total := c.counted[0] + c.counted[1]
	expected := int32(int64(total) * int64(c.usual) / shareUnits)
	many := c.counted[1] > 2*expected+judgeLost
	if c.testing {
		// Such a loss never counts as usual.
		many = int64(c.counted[1]) > int64(total)*shareMost/shareUnits+2*judgeLost
	}
	// For a small window that many packets would take too many rounds.
	enough := min(judgeAfter, max(judgeLeast, judgeRounds*c.window))
	if c.testing && c.base < delayNoise {
		// All windows of relevant size are tested for the same number of rounds: a window under
		// test does not grow, so a sender with a shorter test would take room from the others.
		enough = max(enough, testRounds*c.window)
	}
	if total < enough && !many || total == 0 {
		return false
	}
	share := int32(int64(c.counted[1]) * shareUnits / int64(total))
	lost, before := c.counted[1], int32(int64(total)*int64(c.share)/shareUnits)
	first, queued := c.spread == 0, c.queued > 0
	c.counted, c.queued = [2]int32{}, 0
	if many {
		c.spread = spreadTime
	}
	switch {
	case many && first && !c.testing && share < shareSlow:
		return true // that may be enough
	case c.testing && queued && !many: // that is not the path's loss
		c.testing = false
		return false
	case c.testing && lost+judgeLost > before-before/4 && share < shareMost:
		c.testing, c.usual = false, share
		c.window, c.peak = max(c.window, c.before), 0
		return true
	case c.testing && many:
	case c.testing && c.base >= delayNoise && lost > 2*expected+judgeLost && lost < before*5/8:
		// The loss is clearly lower than before: the window was too large, and may be so still.
	case c.testing:
		c.testing, c.usual = false, min(share, shareMost)
		return false
	case !many || c.slow && share < shareSlow:
		c.usual -= max(c.usual-share, 0) / 16
		return false
	}
	c.before, c.share = c.window, share
	c.blame(lost)
	excess := c.window*(share-c.usual)/shareUnits + c.window/8
	c.shrink(max(min(c.window-excess, c.window*7/10), c.window/2, c.held()))
	c.testing, c.skip = true, skipRounds
	return true
}

// held is the path's capacity in this round, as far as delay shows it, but only somewhat less than
// the window: a smaller one would leave the path empty while the loss is measured.
func (c *congestion) held() int32 {
	if c.base < delayNoise || c.least <= c.base {
		return 0
	}
	underWay := min(c.window, max(c.flight, c.acked))
	return min(int32(int64(underWay)*int64(c.base)/int64(c.least)), c.window*7/9)
}

// restart resets the window after a silence of several time-outs: the knowledge of the path is
// outdated. Losses found next are of packets sent before the restart, most of which are no longer
// in flight.
func (c *congestion) restart(rules *Rules) {
	c.window, c.unhalved, c.slow = min(c.window, int32(rules.InitialWindow)), 0, true
	c.skip, c.flight, c.above, c.counted, c.testing = skipRounds, 0, 0, [2]int32{}, false
}
