package conn

import (
	"errors"

	"gobtl/btl"
)

var errTotal = errors.New("conn: unread bytes exceed TotalBytes")

// The method "count" records the number of bytes of the Conn's ring buffer and copies in the sum
// that Config.TotalBytes limits.
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
	n.endHolders(n.holders())
}

// endHolders ends endpoints until at most seven eighths of TotalBytes are in use. endHolders looks
// only at the Conns of the endpoints that it ends, because a Node can have tens of thousands of
// Conns.
func (n *Node) endHolders(holders []holder) {
	for n.held > n.cfg.TotalBytes-n.cfg.TotalBytes/8 && len(holders) > 0 {
		most := 0
		for i, h := range holders {
			if h.more(holders[most]) {
				most = i
			}
		}
		h, last := holders[most], len(holders)-1
		holders[most], holders = holders[last], holders[:last]
		*h.atHost -= h.bytes
		n.lost(h.ep, errTotal)
		h.ep.Abort()
	}
}

// holder is an endpoint whose Conns have receive buffers.
type holder struct {
	ep     *btl.Endpoint
	bytes  int64  // of the receive buffers of its Conns
	atHost *int64 // sum of bytes of the host's holders
}

// The method "more" reports whether endHolders ends the endpoint h before the endpoint o. The host
// with the largest receive buffers loses endpoints first, and of this host the endpoint with the
// largest receive buffers.
func (h holder) more(o holder) bool {
	if h.atHost == o.atHost {
		return h.bytes > o.bytes
	}
	return *h.atHost > *o.atHost
}

// The method "holders" looks once at each Conn, and returns all holders.
func (n *Node) holders() []holder {
	held := make(map[*btl.Endpoint]int64)
	for id, c := range n.conns {
		if c.held > 0 {
			held[id.ep] += int64(c.held)
		}
	}
	all, atHost := make([]holder, 0, len(held)), make(map[string]*int64)
	for ep, bytes := range held {
		sum := atHost[ep.PeerHost()]
		if sum == nil {
			sum = new(int64)
			atHost[ep.PeerHost()] = sum
		}
		*sum += bytes
		all = append(all, holder{ep, bytes, sum})
	}
	return all
}
