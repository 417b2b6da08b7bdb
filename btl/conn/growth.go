package conn

import "slices"

// growth is the window of an incoming direction, which doubles where the path needs it:
//
//	the sender has used a limit up, and then the reader has read all that came: it waits for more
//
// A slow reader never meets that condition, nor does a peer that sends less than its limit. At
// least a window must be read between two doublings. Many Conns fill the path together: while more
// than busyConnsMax are busy no window grows, and grown windows shrink back, as they would take
// bandwidth from the others. Idle Conns do not count. Config bounds the window of a Conn and the
// total growth of a Node's windows; one Conn takes at most a quarter of the rest of that total.
type growth struct {
	window uint64             // bytes that the Conn keeps unread
	since  uint64             // bytes that were read when it grew
	limits [limitsKept]uint64 // the latest that the other side was told
	usedUp bool               // the sender has used up one of them since the window grew
	epoch  uint64             // of company, in which the latest bytes have come
	came   int                // bytes that have come in it
}

// busyConnsMax is the number of busy Conns of a Node up to which their windows grow.
const busyConnsMax = 8

// company counts the Conns of a Node that are busy. An epoch ends when all Conns together have
// received epochWindows windows; a Conn is busy in an epoch if it has received 1/busyParts of a
// window in it.
type company struct {
	window int    // Config.WindowBytes
	epoch  uint64 // its number
	came   int    // bytes that have come in it
	busy   int    // Conns that are busy in it
	before int    // that were in the one before
}

const (
	epochWindows = 16
	busyParts    = 64 // of a window: one is what a busy Conn gets
)

// note accounts for bytes that a Conn has received.
func (p *company) note(g *growth, bytes int) {
	if p.came += bytes; p.came >= epochWindows*p.window {
		p.came, p.before, p.busy = 0, p.busy, 0
		p.epoch++
	}
	if g.epoch != p.epoch {
		g.epoch, g.came = p.epoch, 0
	}
	least := p.window / busyParts
	if g.came < least && g.came+bytes >= least {
		p.busy++
	}
	g.came += bytes
}

// many says whether so many Conns are busy that no window grows.
func (p *company) many() bool { return max(p.busy, p.before) > busyConnsMax }

// limitsKept is the largest usual number of limits in flight: each is a quarter of a window above
// the previous one.
const limitsKept = 6

// tell records a limit that is sent to the peer.
func (c *Conn) tell(limit uint64) {
	copy(c.limits[1:], c.limits[:])
	c.limits[0], c.told = limit, limit
}

// mayGrow notes whether received bytes, which end at end, have used up a limit.
func (g *growth) mayGrow(end uint64) { g.usedUp = g.usedUp || slices.Contains(g.limits[:], end) }

// grow doubles the window if the condition for that is met.
func (c *Conn) grow() {
	cfg := &c.n.cfg
	if !c.usedUp || c.read != c.next || c.read-c.since < c.window {
		return
	}
	c.usedUp, c.since = false, c.read
	more := min(c.window, uint64(cfg.WindowBytesMax)-c.window)
	if int64(more) <= (cfg.GrowthBytes-c.n.grown)/4 {
		c.window += more
		c.n.grown += int64(more)
	}
}

// shrink resets the window to its initial size once the unread bytes, and those that the peer may
// still send under its limit, fit. It says whether it did.
func (c *Conn) shrink() bool {
	least := c.n.cfg.WindowBytes
	if c.told-c.read > uint64(least) {
		return false
	}
	c.ungrow()
	c.usedUp, c.since = false, c.read
	if len(c.ring) > least {
		c.resize(least)
	}
	return true
}

// ungrow returns the window's growth to the Node's budget.
func (c *Conn) ungrow() {
	c.n.grown -= int64(c.window) - int64(c.n.cfg.WindowBytes)
	c.window = uint64(c.n.cfg.WindowBytes)
}
