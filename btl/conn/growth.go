package conn

import (
	"slices"
	"sync/atomic"
)

// The type "growth" is the state of the receive window of a Conn. If the sender has filled the
// window and the reader has read all received bytes, the window limits the throughput, and is
// therefore doubled.
//
// The window of a Conn does not grow if the reader is slow, or if the sender does not fill the
// window. Between two doublings of a window, the application must read at least one window of
// bytes. While more than busyConnsMax Conns transfer data, no window grows, and grown windows
// shrink to their initial size, because more than busyConnsMax busy Conns fill the path together
// even with small windows. In one step, a window can grow by at most a quarter of those bytes of
// GrowthBytes that no window has used. The growth of all windows of one host together uses at most
// half of GrowthBytes.
type growth struct {
	window uint64             // maximum number of unread bytes
	since  uint64             // bytes read when the window last grew
	limits [limitsKept]uint64 // latest limits sent to the peer
	usedUp bool               // the sender has used up a limit since the last growth
	epoch  uint64             // number of the epoch in which bytes last arrived
	came   int                // bytes received in the epoch of the latest bytes
}

// Windows grow only while at most busyConnsMax Conns of the Node are busy (transfer data). When the
// Node counts the busy Conns, to decide about the windows of one host, it counts at most
// busyOfHostMax Conns of each other host. One host with many busy Conns therefore does not prevent
// the growth of the windows of all other hosts.
const (
	busyConnsMax  = 8
	busyOfHostMax = busyConnsMax / 2
)

// The type "host" is the common state of all Conns with the peers on one host.
type host struct {
	name   string // Endpoint.PeerHost when the first Conn was made
	conns  int    // number of Conns with peers on the host
	grown  int64  // total growth of their windows, in bytes
	epoch  uint64 // number of the epoch of busy
	busy   int    // busy Conns in the epoch
	before int    // busy Conns in the previous epoch
	opened int    // Conns that the peers on the host have opened

	unsent atomic.Int64 // memory of the write buffers of the Conns, in bytes
}

// enterHost adds one to the number of Conns with peers on the host with the given name, and returns
// the host's state.
func (n *Node) enterHost(name string) *host {
	h := n.hosts[name]
	if h == nil {
		h = &host{name: name}
		n.hosts[name] = h
	}
	h.conns++
	return h
}

// leaveHost subtracts one from the number of Conns with peers on a host, and forgets the host if no
// Conn is left.
func (n *Node) leaveHost(h *host) {
	if h.conns--; h.conns == 0 {
		delete(n.hosts, h.name)
	}
}

// The type "company" counts the busy Conns of a Node, which are the Conns that transfer data in the
// current epoch. An epoch is the period in which all Conns together receive epochWindows times the
// initial window. A Conn is busy in an epoch if it receives at least 1/busyParts of its initial
// window.
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

// The method "note" counts bytes that a Conn has received from a peer on the host h.
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

// The method "enter" begins to count the busy Conns of a host in the given epoch (a period of
// counting), unless the count of this epoch has already begun.
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

// The method "many" reports whether so many Conns are busy that the windows of the host h must not
// grow.
func (p *company) many(h *host) bool {
	h.enter(p.epoch)
	return max(p.busy, p.before, h.busy, h.before) > busyConnsMax
}

// limitsKept is the number of recent window limits that a Conn stores, usually enough for all
// limits that the sender might still be using.
const limitsKept = 6

// The method "tell" records a window limit that was sent to the peer.
func (c *Conn) tell(limit uint64) {
	copy(c.limits[1:], c.limits[:])
	c.limits[0], c.told = limit, limit
}

// If the received bytes end exactly at a window limit, mayGrow records that the sender has filled
// the window.
func (g *growth) mayGrow(end uint64) { g.usedUp = g.usedUp || slices.Contains(g.limits[:], end) }

// The method "grow" doubles the receive window of a Conn if the sender has filled it and the reader
// has read all bytes (see the type "growth").
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

// The method "shrink" resets the window to its initial size, and reports whether it has done so. If
// the unread bytes and the bytes that the peer is still allowed to send exceed the initial size,
// the method "shrink" changes nothing.
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

// The method "ungrow" resets the window to its initial size, and subtracts the window's growth from
// the total growth of all windows.
func (c *Conn) ungrow() {
	grown := int64(c.window) - int64(c.n.cfg.WindowBytes)
	c.n.grown -= grown
	c.host.grown -= grown
	c.window = uint64(c.n.cfg.WindowBytes)
}
