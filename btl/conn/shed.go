package conn

import (
	"errors"

	"gobtl/btl"
)

var errTotal = errors.New("conn: unread bytes exceed TotalBytes")

// The method "count" records a new size of the Conn's ring buffer in the sum that Config.TotalBytes
// limits.
func (c *Conn) count(bytes int) {
	c.n.held += int64(bytes - c.held)
	c.held = bytes
}

// When the receive buffers of all Conns exceed TotalBytes, the method "shed" frees memory until at
// most seven eighths of TotalBytes are in use. Because the method "shed" searches through all
// Conns, it frees more than necessary, so that it is called rarely.
func (n *Node) shed() {
	for _, c := range n.conns {
		if c.read == c.next && len(c.early) == 0 {
			c.ring = nil
			c.count(0)
		}
	}
	for n.held > n.cfg.TotalBytes-n.cfg.TotalBytes/8 {
		ep := n.most()
		n.lost(ep, errTotal)
		ep.Abort()
	}
}

// The method "most" finds the host whose Conns have the largest receive buffers, and returns the
// endpoint of this host whose Conns have the largest receive buffers.
func (n *Node) most() (most *btl.Endpoint) {
	held := make(map[*btl.Endpoint]int64)
	for id, c := range n.conns {
		held[id.ep] += int64(c.held)
	}
	atHost := make(map[string]int64)
	for ep, bytes := range held {
		atHost[ep.PeerHost()] += bytes
	}
	mostHost := ""
	for ep, bytes := range held {
		host := ep.PeerHost()
		if most == nil || atHost[host] > atHost[mostHost] ||
			host == mostHost && bytes > held[most] {
			most, mostHost = ep, host
		}
	}
	return most
}
