package conn

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// The type "growth" is the state of the receive window of a Conn. If the sender has filled the
// window and the reader has read all received bytes, the window limits the throughput, and is
// therefore doubled.
//
// The window of a Conn does not grow if the reader is slow, or if the sender does not fill the
// window. Between two doublings of a window, the application must read at least one window of
// bytes. While more than busyConnsMax Conns transfer data, their windows do not grow, and grown
// windows shrink to their initial size, because more than busyConnsMax busy Conns fill the path
// together even with small windows. In one step, a window can grow by at most a quarter of the
// unused part of GrowthBytes. A window does not grow if the total growth of its host's windows
// would then exceed the unused part of GrowthBytes.
type growth struct {
	window uint64             // maximum number of unread bytes
	since  uint64             // bytes read when the window last grew
	limits [limitsKept]uint64 // latest limits sent to the peer
	usedUp bool               // the sender has used up a limit since the last growth
	epoch  uint64             // number of the epoch in which bytes last arrived
	came   int                // bytes received in this epoch
	level  int                // number of elements of company.busy that count the Conn
	before int                // bytes received in the previous epoch
}

// The window of a Conn grows only while at most busyConnsMax Conns of the Node are busy (transfer
// data). The Node counts at most busyOfHostMax Conns of each other host, so that the busy Conns of
// three other hosts do not prevent the growth of a window.
const (
	busyConnsMax  = 8
	busyOfHostMax = busyConnsMax / 4
)

// The type "host" is the common state of all Conns with the peers on one host.
type host struct {
	name   string // Endpoint.PeerHost when the first Conn was made
	conns  int    // number of Conns with peers on the host
	grown  int64  // total growth of their windows, in bytes
	epoch  uint64 // number of the epoch of busy
	busy   levels // Conns in the epoch
	before levels // Conns in the previous epoch
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

// leaveHost subtracts one from the number of Conns with peers on a host. If no Conn is left,
// leaveHost forgets the host and its busy Conns, so that a host that opens one short Conn after
// another counts as one host.
func (n *Node) leaveHost(h *host) {
	if h.conns--; h.conns > 0 {
		return
	}
	delete(n.hosts, h.name)
	h.enter(n.company.epoch)
	for i := range h.busy {
		n.company.busy[i] -= min(h.busy[i], busyOfHostMax)
		n.company.before[i] -= min(h.before[i], busyOfHostMax)
	}
}

// The type "levels" counts the Conns that receive data in an epoch. Element i of the type "levels"
// is the number of Conns that have received at least 2^i/busyParts of their initial window.
type levels [levelCount]int

// The type "company" counts the Conns of a Node that receive data in the current epoch. An epoch is
// the period in which all Conns together receive epochWindows times the initial window.
type company struct {
	window int    // Config.WindowBytes
	epoch  uint64 // number of the epoch
	came   int    // bytes received in the epoch
	busy   levels // Conns in the epoch, at most busyOfHostMax of each host in each element
	before levels // value of busy at the end of the previous epoch
}

// In the decision about the window of a Conn C, another Conn counts as busy if it receives enough
// bytes in an epoch, compared with the bytes that C receives. If the window of C has its initial
// size, a Conn is busy if it receives at least 1/busyFactor of the bytes that C receives. If the
// window of C has n times its initial size, a Conn is busy if it receives at least 1/(n*busyFactor)
// of the bytes that C receives, because the large window of C may slow down other Conns. A Conn
// that receives less than 1/busyParts of its initial window in an epoch is not busy.
const (
	epochWindows = 16
	busyParts    = 64
	busyFactor   = 8
	levelCount   = 11 // The last level is epochWindows*busyParts.
)

// The method "note" counts bytes that a Conn has received from a peer on the host h.
func (p *company) note(h *host, g *growth, bytes int) {
	if p.came += bytes; p.came >= epochWindows*p.window {
		p.came, p.before, p.busy = 0, p.busy, levels{}
		p.epoch++
	}
	g.enter(p.epoch)
	if g.came += bytes; g.came >= p.least()<<g.level {
		p.raise(h, g)
	}
}

// The method "least" returns the minimum number of received bytes with which a Conn counts in the
// first element of the type "levels".
func (p *company) least() int { return p.window / busyParts }

// The method "raise" counts a Conn in the further elements of the type "levels" for which the Conn
// has now received enough bytes.
func (p *company) raise(h *host, g *growth) {
	h.enter(p.epoch)
	for ; g.level < levelCount && g.came >= p.least()<<g.level; g.level++ {
		if h.busy[g.level]++; h.busy[g.level] <= busyOfHostMax {
			p.busy[g.level]++
		}
	}
}

// The method "enter" begins to count the bytes of a Conn in the given epoch (a period of counting),
// unless the count of this epoch has already begun.
func (g *growth) enter(epoch uint64) {
	if g.epoch == epoch {
		return
	}
	g.before = 0
	if g.epoch+1 == epoch {
		g.before = g.came
	}
	g.came, g.level, g.epoch = 0, 0, epoch
}

// The method "enter" begins to count the Conns of a host in the given epoch (a period of counting),
// unless the count of this epoch has already begun.
func (h *host) enter(epoch uint64) {
	if h.epoch == epoch {
		return
	}
	h.before = levels{}
	if h.epoch+1 == epoch {
		h.before = h.busy
	}
	h.busy, h.epoch = levels{}, epoch
}

// The method "many" reports whether so many Conns are busy that the window of a Conn with a peer on
// the host h must not grow.
func (p *company) many(h *host, g *growth) bool {
	h.enter(p.epoch)
	if p.count(h, 0) <= busyConnsMax {
		return false // the common case
	}
	g.enter(p.epoch)
	busy := max(g.came, g.before) * p.window / int(g.window) / busyFactor
	level := bits.Len(uint(busy / p.least()))
	return p.count(h, min(max(level, 1), levelCount)-1) > busyConnsMax
}

// The method "count" returns the number of Conns that an element of the type "levels" has counted,
// in the present epoch or in the previous epoch. The result of the method "count" includes all
// Conns with peers on the host h, but at most busyOfHostMax Conns of each other host.
func (p *company) count(h *host, level int) int {
	return max(p.busy[level]+h.busy.beyond(level), p.before[level]+h.before.beyond(level))
}

// The method "beyond" returns by how many the Conns of a host exceed busyOfHostMax, the maximum
// number that the type "company" counts.
func (l *levels) beyond(level int) int { return max(l[level]-busyOfHostMax, 0) }

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
	free := cfg.GrowthBytes - c.n.grown
	if int64(more) <= free/4 && c.host.grown+int64(more) <= free-int64(more) {
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
	if len(c.ring)+c.apart > least {
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
