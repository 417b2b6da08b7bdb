package conn

import "slices"

// growth is the window of an incoming direction, which doubles where the path needs it:
//
//	the sender has used a limit up, and then the reader has read all that came: it waits for more
//
// A reader that does not keep up never gets there, nor does a peer that sends less than it may.
// At least a window has to be read between two doublings. Many Conns fill the path together:
// beside more than growingConnsMax no window grows, for it would take its share from the others.
// Config bounds the window of a Conn, and what the windows of all Conns of a Node have grown by;
// of the latter a Conn takes at most a quarter of what is left, so that others find some.
type growth struct {
	window uint64             // bytes that the Conn keeps unread
	since  uint64             // bytes that were read when it grew
	limits [limitsKept]uint64 // the latest that the other side was told
	usedUp bool               // the sender has used up one of them since the window grew
}

// growingConnsMax is the number of a Node's Conns up to which their windows grow.
const growingConnsMax = 8

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
	if !c.usedUp || c.read != c.next || c.read-c.since < c.window ||
		len(c.n.conns) > growingConnsMax {
		return
	}
	c.usedUp, c.since = false, c.read
	more := min(c.window, uint64(cfg.WindowBytesMax)-c.window)
	if int64(more) <= (cfg.GrowthBytes-c.n.grown)/4 {
		c.window += more
		c.n.grown += int64(more)
	}
}

// ungrow gives back what the window has grown by.
func (c *Conn) ungrow() {
	c.n.grown -= int64(c.window) - int64(c.n.cfg.WindowBytes)
	c.window = uint64(c.n.cfg.WindowBytes)
}
