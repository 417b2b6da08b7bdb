package conn

import (
	"slices"
	"sync/atomic"
)

// growth is the state of the receive window of a Conn. The window doubles if the sender has filled
// it and the reader has read all received bytes, because the window then limits the throughput.
//
// The window does not grow if the reader is slow, or if the sender does not fill the window.
// Between two doublings of a window, the application must read at least one window of bytes. No
// window grows, and grown windows shrink back, while more than busyConnsMax Conns transfer data,
// because these Conns together already fill the path. In one step, a window may grow by at most a
// quarter of the unused part of GrowthBytes. The growth of all windows of one host together uses at
// most half of GrowthBytes.
type growth struct {
	window uint64             // bytes that the Conn may hold unread
	since  uint64             // bytes read when the window last grew
	limits [limitsKept]uint64 // latest limits sent to the peer
	usedUp bool               // the sender has used up a limit since the last growth
	epoch  uint64             // number of the epoch of the latest bytes
	came   int                // bytes received in that epoch
}

// busyConnsMax is the largest number of transferring Conns of a Node with which windows still grow.
// For the windows of one host, each other host counts with at most busyOfHostMax busy Conns. One
// host with many Conns therefore does not keep the windows of all other hosts small.
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
	opened int    // Conns that these peers have opened

	unsent atomic.Int64 // memory of the write buffers of the Conns, in bytes
}

// enterHost adds one to the number of Conns with peers of the named host, and returns the host's
// state.
func (n *Node) enterHost(name string) *host {
	h := n.hosts[name]
	if h == nil {
		h = &host{name: name}
		n.hosts[name] = h
	}
	h.conns++
	return h
}

// leaveHost subtracts one from the number of Conns with peers of a host.
func (n *Node) leaveHost(h *host) {
	if h.conns--; h.conns == 0 {
		delete(n.hosts, h.name)
	}
}

// The type company counts the busy Conns of a Node, which are the Conns that transfer data in the
// present epoch. An epoch ends when all Conns together have received epochWindows times the initial
// window. An epoch is a period in which all Conns receive a certain number of bytes. A Conn is busy
// in an epoch if it receives at least 1/busyParts of its initial window.
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

// enter begins to count the busy Conns of a host in the given epoch (a period of counting), unless
// the count has begun already.
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

// The method named many reports whether so many Conns are busy that the windows of a host must not
// grow.
func (p *company) many(h *host) bool {
	h.enter(p.epoch)
	return max(p.busy, p.before, h.busy, h.before) > busyConnsMax
}

// limitsKept is the number of recent window limits that a Conn remembers, usually enough for all
// limits that the sender may still use.
const limitsKept = 6

// tell records a window limit that is sent to the peer.
func (c *Conn) tell(limit uint64) {
	copy(c.limits[1:], c.limits[:])
	c.limits[0], c.told = limit, limit
}

// mayGrow records that the sender has filled the window, if the received bytes end exactly at a
// window limit.
func (g *growth) mayGrow(end uint64) { g.usedUp = g.usedUp || slices.Contains(g.limits[:], end) }

// grow doubles the receive window of a Conn if the conditions for growth (see the type growth)
// hold.
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

// ungrow resets the window to its initial size, and subtracts the former growth from the growth of
// all windows.
func (c *Conn) ungrow() {
	grown := int64(c.window) - int64(c.n.cfg.WindowBytes)
	c.n.grown -= grown
	c.host.grown -= grown
	c.window = uint64(c.n.cfg.WindowBytes)
}
