package btl

import (
	"gobtl/fabric"
	"gobtl/frag"
)

// crowd counts the endpoints of each address and of each host, and the half-open ones of each host.
type crowd struct {
	hosts  fabric.Addresser // nil: each address is a host of its own
	atAddr map[string]int32
	atHost map[string]int32
	// halfAt is empty where the fabric does not tell hosts apart.
	halfAt map[string]int32
}

func (c *crowd) init(dom fabric.Domain) {
	c.hosts, _ = dom.(fabric.Addresser)
	c.atAddr, c.atHost = make(map[string]int32), make(map[string]int32)
	c.halfAt = make(map[string]int32)
}

func (c *crowd) hostOf(addr string) string {
	if c.hosts == nil {
		return addr
	}
	return string(c.hosts.Host([]byte(addr)))
}

// IsModule says whether a module's name (Module.Name) is that of this peer, which has answered from
// there.
func (ep *Endpoint) IsModule(name []byte) bool {
	n, err := frag.ParseName(name)
	return err == nil && string(n.Command) == ep.addrKey && ep.isLife(n.Incarnation)
}

// AtHost says whether the name of an endpoint of the fabric belongs to the host from which the peer
// has answered. Where the fabric tells no hosts apart, any name may.
func (ep *Endpoint) AtHost(name []byte) bool {
	c := &ep.m.crowd
	return c.hosts == nil || c.hostOf(string(name)) == c.hostOf(ep.addrKey)
}

// count adds d to the endpoints of an address.
func (c *crowd) count(addr string, d int32) {
	addTo(c.atAddr, addr, d)
	addTo(c.atHost, c.hostOf(addr), d)
}

// addTo adds to a count that is only kept while it is not 0.
func addTo(m map[string]int32, key string, d int32) {
	if m[key] += d; m[key] == 0 {
		delete(m, key)
	}
}

// countHalf adds d to the half-open endpoints of the host of an address.
func (c *crowd) countHalf(addr string, d int32) {
	if c.hosts != nil {
		addTo(c.halfAt, c.hostOf(addr), d)
	}
}

// halfOpenFull says whether the host of an address has its share of the half-open endpoints: one
// that never answers, from many ports, is not to lock all others out until the handshakes time out.
func (p *peers) halfOpenFull(addr string, most int) bool {
	if p.crowd.hosts == nil {
		return false
	}
	return int(p.crowd.halfAt[p.crowd.hostOf(addr)]) >= max(most/4, 1)
}

// countHalfOpen adds d to the half-open endpoints, of which this one is.
func (p *peers) countHalfOpen(ep *Endpoint, d int) {
	p.halfOpen += d
	p.crowd.countHalf(ep.addrKey, int32(d))
}

// halves is the number of half-open endpoints that are counted by host.
func (c *crowd) halves() (n int) {
	for _, here := range c.halfAt {
		n += int(here)
	}
	return n
}

// endpoints is the number of endpoints that are counted.
func (c *crowd) endpoints() (n int) {
	for _, here := range c.atAddr {
		n += int(here)
	}
	return n
}
