package reliability

import (
	"math/bits"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// The type "congestion" is the congestion control for one peer, which limits the packets in flight
// by a congestion window. Except in slow start, the congestion window changes at most once per
// round trip.
//
// The first congestion signal is delay. The congestion window is reduced if several consecutive
// round-trip samples, during more than half of the lowest round trip, all exceed the target delay.
// After a reduction of the congestion window, round-trip samples of packets that were sent before
// the reduction are ignored. The congestion window grows in each round trip without a sign of
// congestion. Delay is measured similarly to the standing RTT of Copa (Arun and Balakrishnan, NSDI
// 2018). The steps by which the congestion window changes are similar to those of Swift (Kumar et
// al., SIGCOMM 2020). Senders that share a queue reduce their congestion windows by the same
// factor, so that the sum of the windows is somewhat below the path's capacity. After the
// reduction, all senders that share a queue increase their congestion windows by the same step.
// After a reduction of the congestion window, the sender paces its packets. Without pacing, the
// first packets of a burst would find an empty queue, so that the delay measured with them would be
// too low. Jitter between packets (path.vary) is added to the target delay, because jitter is not
// caused by a queue.
//
// From time to time, a sender whose congestion window was full makes a dip, which is a reduction of
// the window to a fraction for two round trips. A dip (a short reduction of the window) empties the
// queue, so that the sender can measure the round trip with an empty queue, like the round-trip
// probes of BBR (Cardwell et al., ACM Queue 2016). If a sender measures a new lowest round trip
// outside of a dip (a short reduction of the window), it postpones its next dip by a full interval.
//
// The second congestion signal is loss. While the delay shows a queue, a loss rate above the usual
// loss rate of the path reduces the congestion window by at most an eighth, and never below the
// path's capacity. If the delay shows no queue, a loss rate above the usual loss rate of the path
// first turns on pacing (see pacer). If the loss rate stays high in spite of pacing, the sender
// reduces the congestion window. The fraction by which the window is reduced is somewhat larger
// than the difference between the loss rate and the usual loss rate. After each reduction of the
// congestion window because of loss, the sender measures the usual loss rate of the path. If the
// loss rate falls after a reduction of the congestion window, the sender concludes that the window
// was too large.
type congestion struct {
	window   int32         // packets that may be in flight
	unhalved int32         // the window before a dip; 0: no dip
	slow     bool          // slow start: the window doubles in each round
	overshot bool          // unhalved is the window at which delay ended slow start
	limited  bool          // the window or the pace limited this round
	compete  bool          // competing senders fill the queue; only loss counts
	testing  bool          // the losses counted now will be the usual loss
	spread   uint8         // rounds for which packets are still paced
	above    int32         // consecutive round trips above the target
	aboveMin time.Duration // least of the round trips counted by above, minus base
	aboveAt  mono.Time     // when the first round trip counted by above was measured
	calm     seq.Num       // round-trip samples of packets with lower numbers do not count
	peak     int32         // the latest window that was too large
	rounds   uint8         // rounds since the latest dip, or since base fell
	ramp     uint8         // rounds for which packets are still paced
	easy     uint8         // rounds since the window was shrunk
	dipAfter uint8         // least number of rounds until the next dip
	vain     uint8         // latest consecutive dips without a new minimum
	met      bool          // the window has met a limit since the latest dip
	dipBase  time.Duration // base before the latest dip
	// low[0] is the lowest round trip in the present interval of lowRounds round trips, or 0 before
	// its first sample. low[1] is the lowest round trip in the previous interval of lowRounds round
	// trips.
	low    [2]time.Duration
	lowFor uint8 // elapsed rounds of the present lowRounds
	skip   uint8 // rounds with losses caused by the previous window
	// The field "pressed" of a "congestion" counts consecutive round trips that were far above the
	// target delay, although this sender had a tiny congestion window.
	pressed  uint16
	acked    int32         // packets delivered in this round
	lost     int32         // packets found lost in this round
	least    time.Duration // least round trip of this round
	base     time.Duration // the path's own round trip, of the measured channel
	jitter   time.Duration // extra delay of packets on that channel without a queue
	before   int32         // the window before the test
	flight   int32         // packets in flight when the round began
	share    int32         // the share of lost packets before the test
	usual    int32         // of shareUnits packets, the number that is usually lost
	counted  [2]int32      // packets delivered and lost since the latest judge
	queued   int32         // rounds with a queue minus rounds without, since the latest judge
	blamed   int32         // losses for which the window was shrunk last
	excused  int32         // of these losses, packets that were only late
	undo     int32         // the window before the latest shrink
	undoSlow bool
	wobble   wobble // of the least round trips
}

const (
	// delayNoise is an estimate of the time that batching and process scheduling add to a round trip
	// even if no packet waits in a queue of the network.
	delayNoise = 250 * time.Microsecond

	shareUnits  = 1 << 12
	shareMost   = shareUnits / 16 // a share that is congestion, even if usual
	shareSlow   = shareUnits / 8  // a share that ends slow start
	aboveMax    = 8               // samples that end slow start
	aboveLeast  = 3               // samples above the target that shrink the window
	aboveJitter = 13              // additional samples where delay varies
	usualLittle = shareUnits / 256
	judgeLeast  = 64
	judgeRounds = 32
	judgeAfter  = 512 // packets
	testRounds  = 24  // least rounds of a test where delay shows no queue
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
	rampLeast   = 4 * time.Microsecond // between packets, from which pacing is worth a timer
	stepPer     = 2 * time.Millisecond
	stepDouble  = 8 // rounds
)

func (c *congestion) init(rules *Rules) {
	*c = congestion{window: int32(rules.InitialWindow), slow: true, dipAfter: dipNext}
}

// The method "target" returns the round trip above which the congestion window is reduced.
func (c *congestion) target(base, jitter time.Duration, rules *Rules) time.Duration {
	return max(rules.TargetDelay+c.wobble.room(rules), base+base/4+delayNoise+jitter)
}

// The method "grow" counts delivered packets. In slow start, the method "grow" increases the
// congestion window by the number of delivered packets, but never above the argument "most".
func (c *congestion) grow(packets int32, most uint32) {
	c.acked += packets
	if c.slow && c.limited && !c.flooded() {
		c.window = min(c.window+packets, int32(most))
	}
}

// The method "flooded" reports whether so many packets were lost in the present round trip of slow
// start that the congestion window must be too large.
func (c *congestion) flooded() bool { return c.skip == 0 && c.lost > floodLeast+c.acked/8 }

// leaveSlow ends slow start if too many of the packets in flight at the beginning of the past round
// trip were lost or are still unacknowledged. The argument "took" of leaveSlow is the duration of
// the past round trip. At the end of slow start, leaveSlow sets the congestion window to the
// estimated capacity of the path.
func (c *congestion) leaveSlow(took time.Duration) bool {
	if !c.slow || !c.flooded() && (c.flight < 2*floodLeast || c.acked+c.lost > c.flight*3/4) {
		return false
	}
	if took > 4*max(c.least, c.base) {
		c.least = took // the path has stood still during the round
	}
	holds := int64(c.acked) * int64(c.base) / int64(max(c.least, c.base, 1))
	c.blame(c.lost)
	c.shrink(max(int32(holds)*7/8, c.window/4))
	c.peak = max(c.window, c.acked)
	c.skip, c.counted = skipRounds, [2]int32{}
	return true
}

// endRound adjusts the congestion window at the end of a round trip, whose duration is the argument
// "took".
func (c *congestion) endRound(rules *Rules, p *path, most int32, took time.Duration) {
	if c.skip > 0 {
		c.skip--
	} else if !c.compete {
		c.counted[0] += c.acked
		c.counted[1] += c.lost
	}
	goal := c.target(c.base, c.jitter, rules)
	if c.lowFor++; c.lowFor >= lowRounds {
		c.low, c.lowFor = [2]time.Duration{0, c.low[0]}, 0
	}
	if c.least > c.base+c.jitter+delayNoise {
		c.queued++
		c.met = c.met || !c.limited // other senders have filled the queue
	} else if c.least != 0 {
		c.queued--
	}
	c.press(goal)
	slow, before := c.slow, c.window
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
	case int64(c.lost-judgeLost)*shareUnits > 2*int64(c.usual)*int64(c.acked+c.lost) &&
		c.least > c.base+delayNoise: // clearly more loss than usual, and a queue
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
	c.wobble.round(c.least, p.srtt/time.Duration(before), c.unhalved == 0 && c.window >= before)
	c.spread -= min(c.spread, 1)
	c.ramp -= min(c.ramp, 1)
	c.easy = min(c.easy, 254) + 1
	c.window = min(max(c.window, windowLeast), most)
	c.acked, c.lost, c.least, c.limited = 0, 0, 0, false
}

// After a loss rate above the usual loss rate of the path, the method "hasten" brings forward the
// next dip (a short reduction of the congestion window), because many senders possibly share the
// queue at the bottleneck of the path.
func (c *congestion) hasten(slow bool) {
	if c.easy == 0 && !slow && c.share >= shareMost && c.vain < vainMost {
		c.dipAfter = dipLeast
	}
}

// The method "step" returns the increase of the congestion window per round trip, in packets. The
// increase of the congestion window depends on the duration of the round trip and on the square
// root of the window, so that small windows grow relatively faster. After many round trips without
// a reduction, the increase of the congestion window is raised, because the capacity of the path
// has possibly grown much. The increase of the window is raised as well while the congestion window
// is below the size at which it was last reduced. If the round trip is too short to show a queue,
// the congestion window grows in small steps near the size at which packets were last lost. For
// some time after a loss rate above the usual loss rate of the path, the congestion window grows
// only in small steps.
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
		return 0 // for a small window one packet is much
	}
	return max(step, 1)
}

// The method "press" detects a competing sender that fills the queue because it reacts only to
// loss, as many TCP senders do. A competing sender is assumed if the delay is far above the target
// although the own sender has almost no packets in flight. A sender that has detected a competing
// sender reacts only to loss and not to delay, for competeTime round trips or until the queue is
// empty.
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

// The method "drain" reduces the congestion window to the number of packets that the path can have
// in transit without a queue, but never below the argument "least".
func (c *congestion) drain(least int32) {
	c.shrink(max(int32(int64(c.window)*int64(c.base+delayNoise)/int64(c.least)), least))
	c.peak = c.window // as much as the path holds
}

func (c *congestion) shrink(window int32) {
	last := c.peak
	if c.peak = c.window; c.peak < last {
		c.peak -= c.peak / 8 // other senders have come
	}
	c.window, c.slow, c.easy = min(window, c.window), false, 0
}

// The method "judge" reduces the congestion window if the loss rate is above the usual loss rate of
// the path, and later checks whether the reduction has lowered the loss rate. If a reduction of the
// window has clearly lowered the loss rate, but the loss rate is still too high, the method "judge"
// reduces the window again. If the loss rate has not fallen after a reduction of the window, the
// method "judge" concludes that no queue causes the loss, and restores the window.
func (c *congestion) judge() bool {
	total := c.counted[0] + c.counted[1]
	expected := int32(int64(total) * int64(c.usual) / shareUnits)
	many := c.counted[1] > 2*expected+judgeLost
	if c.testing {
		// A loss rate above shareMost never counts as the usual loss rate of the path.
		many = int64(c.counted[1]) > int64(total)*shareMost/shareUnits+2*judgeLost
	}
	enough := min(judgeAfter, max(judgeLeast, judgeRounds*c.window))
	if c.testing && c.base < delayNoise {
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
		return true // pacing may be enough
	case c.testing && queued && !many: // a queue caused the loss, not the path
		c.testing = false
		return false
	case c.testing && lost+judgeLost > before-before/4 && share < shareMost:
		c.testing, c.usual = false, share
		c.window, c.peak = max(c.window, c.before), 0
		return true
	case c.testing && many:
	case c.testing && c.base >= delayNoise && lost > 2*expected+judgeLost && lost < before*5/8:
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

// The method "held" estimates, from the delay in the past round trip, how many packets the path can
// have in transit without a queue. The result of the method "held" is limited to seven ninths of
// the congestion window, and is 0 if the delay shows no queue.
func (c *congestion) held() int32 {
	if c.base < delayNoise || c.least <= c.base {
		return 0
	}
	underWay := min(c.window, max(c.flight, c.acked))
	return min(int32(int64(underWay)*int64(c.base)/int64(c.least)), c.window*7/9)
}

// The method "restart" is called after several consecutive time-outs without an ACK. The method
// "restart" sets the congestion window back to its initial size and begins slow start.
func (c *congestion) restart(rules *Rules) {
	c.window, c.unhalved, c.slow = min(c.window, int32(rules.InitialWindow)), 0, true
	c.skip, c.flight, c.above, c.counted, c.testing = skipRounds, 0, 0, [2]int32{}, false
}
