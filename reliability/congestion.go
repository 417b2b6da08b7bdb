package reliability

import "time"

// congestion bounds the packets in flight to one peer. Per packet it costs a compare; its decisions
// fall once in a round trip.
//
// The first signal is delay, as in Swift (Kumar et al., SIGCOMM 2020): when even the least round
// trip of a round is above the target, the window shrinks in proportion to the excess, else it
// grows. The target is the same for everybody whose path is short, so that one who comes late, and
// has never seen the path empty, asks for no more than the others.
//
// Loss is the back-stop. While there is a queue, losing packets shrinks the window: draining a
// queue costs nothing. Without a queue loss need not be congestion: only what is lost beyond the
// usual share, the least one of the last rounds, is taken for it. That much the path did not hold.
type congestion struct {
	window   int32 // packets that may be in flight
	slow     bool  // slow start: the window doubles in each round
	limited  bool  // the window was what bounded this round
	cautious uint8 // rounds for which the window grows by single packets, after a loss
	acked    int32 // packets delivered in this round
	lost     int32 // packets found lost in this round
	least    time.Duration
	usual    lossShare
}

const (
	windowLeast = 2
	// delayNoise is a queue that may be none: what batches and the peer's scheduler add to a round trip.
	delayNoise = 250 * time.Microsecond
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
	share := c.usual.excess(c.lost, c.acked)
	queue := c.least - p.base
	goal := target(p.base, rules)
	switch w := c.window; {
	case c.least == 0: // not measured
	case c.least > goal:
		cut := min(int64(w)*8*int64(c.least-goal)/(10*int64(c.least)), int64(w)/2)
		c.shrink(w - int32(cut))
	case c.lost > 0 && queue > max(delayNoise, p.base/8):
		c.shrink(w - w/8)
	case share > 0:
		c.shrink(w - int32(int64(w)*share>>shareBits))
	case !c.limited || c.slow:
	case c.cautious > 0 || queue > (goal-p.base)/4:
		c.window++
	default:
		c.window += max(1, w/16)
	}
	if c.cautious > 0 {
		c.cautious--
	}
	c.window = min(max(c.window, windowLeast), int32(most))
	c.acked, c.lost, c.least, c.limited = 0, 0, 0, false
}

func (c *congestion) shrink(window int32) {
	c.window, c.slow, c.cautious = window, false, 8
}

// restart begins again after a silence of several time-outs: what was known of the path is old.
func (c *congestion) restart(rules *Rules) {
	c.window, c.slow = min(c.window, int32(rules.InitialWindow)), true
}

// lossShare is the least share of packets lost in the last rounds: what gets lost however much or
// little is sent. Shares are fixed-point numbers of shareBits.
type lossShare struct {
	before, least int64 // of the last, and of the present, span of rounds
	rounds        uint8
}

const (
	shareBits  = 16
	shareSpan  = 8 // rounds
	shareUnits = 1 << shareBits
)

// excess returns which share of a round's packets was lost beyond the usual.
func (l *lossShare) excess(lost, acked int32) int64 {
	if lost+acked == 0 {
		return 0
	}
	share := int64(lost) * shareUnits / int64(lost+acked)
	over := share - min(l.before, l.least)
	if l.rounds == 0 || share < l.least {
		l.least = share
	}
	if l.rounds++; l.rounds == shareSpan {
		l.before, l.rounds = l.least, 0
	}
	return max(over, 0)
}
