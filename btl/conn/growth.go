package conn

import "slices"

// growth is the window of an incoming direction, which doubles where the path needs it:
//
//	the sender has used a limit up, and then the reader has read all that came: it waits for more
//
// A reader that does not keep up never gets there, nor does a peer that sends less than it may.
// At least a window has to be read between two doublings. Many Conns fill the path together:
// beside more than busyConnsMax that are busy no window grows, and those that have grown go back to
// where they began, for they take their share from the others. Idle Conns do not count. Config
// bounds the window of a Conn, and what the windows of all Conns of a Node have grown by; of the
// latter a Conn takes at most a quarter of what is left, so that others find some.
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

// company counts the Conns of a Node that are busy. An epoch ends when epochWindows windows have
// come by all Conns together; a Conn is busy in it that has got a part of a window.
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

// note is told that bytes have come by a Conn.
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

// limitsKept is how many limits are on their way at most, but for rare cases: each is a quarter
// of a window above the one before.
const limitsKept = 6

// tell notes that the other side is told a limit.
func (c *Conn) tell(limit uint64) {
	copy(c.limits[1:], c.limits[:])
	c.limits[0], c.told = limit, limit
}

// mayGrow is told where bytes that came end.
func (g *growth) mayGrow(end uint64) { g.usedUp = g.usedUp || slices.Contains(g.limits[:], end) }

// grow doubles the window if it is time.
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

// shrink has the window go back to where it began as soon as all fits there that is unread, and
// that the other side may send by what it was told. It says whether that is so.
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

// ungrow gives back what the window has grown by.
func (c *Conn) ungrow() {
	c.n.grown -= int64(c.window) - int64(c.n.cfg.WindowBytes)
	c.window = uint64(c.n.cfg.WindowBytes)
}
