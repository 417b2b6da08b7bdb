package conn

import "slices"

// growth is the state of the receive window of a Conn. The window doubles when the sender has used
// up a window limit while the reader waits for more bytes, because the path needs a larger window.
//
// Neither a slow reader nor a peer that sends less than its window limit makes the window grow.
// At least a window of bytes must be read between two doublings. No window grows, and grown
// windows shrink back, while more than busyConnsMax Conns transfer data, because these Conns
// together already fill the path. A single growth of a window uses at most a quarter of the bytes
// of GrowthBytes that are left, and the windows of one host use at most half of GrowthBytes.
type growth struct {
	window uint64             // bytes that the Conn may hold unread
	since  uint64             // bytes read when the window last grew
	limits [limitsKept]uint64 // latest limits sent to the peer
	usedUp bool               // the sender has used up a limit since the last growth
	epoch  uint64             // number of the epoch of the latest bytes
	came   int                // bytes received in that epoch
}

// busyConnsMax is the maximum number of busy Conns of a Node at which windows still grow. For the
// Conns of other hosts, a host counts as at most busyOfHostMax busy Conns, because a host that
// opens many Conns must not keep the windows of others small.
const (
	busyConnsMax  = 8
	busyOfHostMax = busyConnsMax / 2
)

// host is the state that the Conns with the peers of one host share.
type host struct {
	name   string // Endpoint.PeerHost when the first of these Conns was made
	conns  int    // number of these Conns
	grown  int64  // total growth of their windows, in bytes
	epoch  uint64 // number of the epoch of busy
	busy   int    // busy Conns in the epoch
	before int    // busy Conns in the previous epoch
}

// enterHost counts a Conn with a peer of a host, and returns the host.
func (n *Node) enterHost(name string) *host {
	h := n.hosts[name]
	if h == nil {
		h = &host{name: name}
		n.hosts[name] = h
	}
	h.conns++
	return h
}

// leaveHost stops counting a Conn with a peer of a host.
func (n *Node) leaveHost(h *host) {
	if h.conns--; h.conns == 0 {
		delete(n.hosts, h.name)
	}
}

// company counts the busy Conns of a Node in epochs. An epoch ends when all Conns together have
// received epochWindows windows of bytes. A Conn is busy in an epoch if it receives 1/busyParts of
// a window in that epoch.
type company struct {
	window int    // Config.WindowBytes
	epoch  uint64 // number of the epoch
	came   int    // bytes received in the epoch
	busy   int    // busy Conns in the epoch, at most busyOfHostMax of each host
	before int    // value of busy at the end of the previous epoch
}

const (
	epochWindows = 16
	busyParts    = 64 // a busy Conn gets 1/64 of a window in an epoch
)

// note counts bytes that a Conn has received from a peer on host h.
func (p *company) note(h *host, g *growth, bytes int) {
	if p.came += bytes; p.came >= epochWindows*p.window {
		p.came, p.before, p.busy = 0, p.busy, 0
		p.epoch++
	}
	if g.epoch != p.epoch {
		g.epoch, g.came = p.epoch, 0
	}
	least := p.window / busyParts
	if g.came < least && g.came+bytes >= least {
		h.enter(p.epoch)
		if h.busy++; h.busy <= busyOfHostMax {
			p.busy++
		}
	}
	g.came += bytes
}

// enter starts an epoch of a host, unless the host is in that epoch already.
func (h *host) enter(epoch uint64) {
	if h.epoch == epoch {
		return
	}
	h.before = 0
	if h.epoch+1 == epoch {
		h.before = h.busy
	}
	h.busy, h.epoch = 0, epoch
}

// many reports whether so many Conns are busy that no window of a host's Conns may grow.
func (p *company) many(h *host) bool {
	h.enter(p.epoch)
	return max(p.busy, p.before, h.busy, h.before) > busyConnsMax
}

// limitsKept is the usual maximum number of window limits in flight, which differ by a quarter of
// a window each.
const limitsKept = 6

// tell records a window limit that is sent to the peer.
func (c *Conn) tell(limit uint64) {
	copy(c.limits[1:], c.limits[:])
	c.limits[0], c.told = limit, limit
}

// mayGrow records whether the received bytes, which end at offset end, have used up a window
// limit.
func (g *growth) mayGrow(end uint64) { g.usedUp = g.usedUp || slices.Contains(g.limits[:], end) }

// grow doubles the receive window of a Conn if the condition for growth is fulfilled.
func (c *Conn) grow() {
	cfg := &c.n.cfg
	if !c.usedUp || c.read != c.next || c.read-c.since < c.window {
		return
	}
	c.usedUp, c.since = false, c.read
	more := min(c.window, uint64(cfg.WindowBytesMax)-c.window)
	if int64(more) <= (cfg.GrowthBytes-c.n.grown)/4 && c.host.grown+int64(more) <= cfg.GrowthBytes/2 {
		c.window += more
		c.n.grown += int64(more)
		c.host.grown += int64(more)
	}
}

// shrink resets the window to its initial size, if the initial size suffices for the unread bytes
// and for the bytes that the peer may still send. shrink returns true if the window was reset.
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
	grown := int64(c.window) - int64(c.n.cfg.WindowBytes)
	c.n.grown -= grown
	c.host.grown -= grown
	c.window = uint64(c.n.cfg.WindowBytes)
}
