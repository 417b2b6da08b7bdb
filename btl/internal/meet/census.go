package meet

import (
	"fmt"
	"slices"
	"strings"

	"gobtl/btl/internal/share"
)

// Hosts determines which addresses belong to the same host.
type Hosts interface {
	// Host returns the part of an address that all endpoints of a host have in common. For IPv6, Host
	// returns the network prefix, because one host can use all addresses of its network.
	Host(name []byte) []byte
	// FormatName returns a text that describes an address, and ends with a colon and the port.
	FormatName(name []byte) string
}

// Limits contains the maximum numbers of endpoints that peers are allowed to open.
type Limits struct {
	PerAddress int // endpoints of an address; 0 or less: none may be opened
	PerHost    int // endpoints of a host; 0 or less: any number
	HalfOpen   int // half-open endpoints of all hosts together; 0 or less: none
}

// Census records the endpoints of each address, the number of endpoints of each host, and the
// half-open endpoints.
type Census[E comparable] struct {
	hosts    Hosts // nil: each address is a host of its own
	limits   Limits
	atAddr   map[string][]E
	atHost   map[string]*share.Host
	halves   halves[E]
	HalfOpen int
}

// Init makes an empty Census. If the argument "hosts" of Init is nil, each address counts as its
// own host.
func (c *Census[E]) Init(hosts Hosts, limits Limits) {
	*c = Census[E]{
		hosts: hosts, limits: limits, atAddr: make(map[string][]E), atHost: make(map[string]*share.Host),
		halves: halves[E]{byHost: make(map[string]*crowd[E])},
	}
}

// Limit replaces the limits of the Census.
func (c *Census[E]) Limit(limits Limits) { c.limits = limits }

// HostOf returns the part of an address that all endpoints of the same host have in common. If
// the fabric cannot tell hosts apart, HostOf returns the whole address.
func (c *Census[E]) HostOf(addr string) string {
	if c.hosts == nil {
		return addr
	}
	return string(c.hosts.Host([]byte(addr)))
}

// SameHost reports whether two addresses belong to the same host. If the fabric cannot tell hosts
// apart, each address counts as its own host.
func (c *Census[E]) SameHost(a, b string) bool { return c.HostOf(a) == c.HostOf(b) }

// SameAddress reports whether two addresses are equal except for the port. The caller may call
// SameAddress only if TellsHosts returns true.
func (c *Census[E]) SameAddress(a, b string) bool {
	first, second := c.hosts.FormatName([]byte(a)), c.hosts.FormatName([]byte(b))
	i, j := strings.LastIndexByte(first, ':'), strings.LastIndexByte(second, ':')
	return i >= 0 && j >= 0 && first[:i] == second[:j]
}

// TellsHosts reports whether the fabric can determine which addresses belong to the same host.
func (c *Census[E]) TellsHosts() bool { return c.hosts != nil }

// The method "enter" adds an endpoint to the counts of its address and its host, and returns the
// counts of the host.
func (c *Census[E]) enter(ep E, addr string) *share.Host {
	c.atAddr[addr] = append(c.atAddr[addr], ep)
	host := c.HostOf(addr)
	h := c.atHost[host]
	if h == nil {
		h = new(share.Host)
		c.atHost[host] = h
	}
	h.Enter()
	return h
}

// The method "leave" removes an endpoint from the counts of its address and its host.
func (c *Census[E]) leave(ep E, addr string) {
	here := c.atAddr[addr]
	i := slices.Index(here, ep)
	if here = slices.Delete(here, i, i+1); len(here) == 0 {
		delete(c.atAddr, addr)
	} else {
		c.atAddr[addr] = here
	}
	host := c.HostOf(addr)
	h := c.atHost[host]
	if h.Leave(); h.Endpoints() == 0 {
		delete(c.atHost, host)
	}
}

// beginHalf records that an endpoint of an address is half open.
func (c *Census[E]) beginHalf(ep E, addr string) {
	c.HalfOpen++
	c.halves.add(c.HostOf(addr), ep)
}

// endHalf records that an endpoint of an address is no longer half open.
func (c *Census[E]) endHalf(ep E, addr string) {
	c.HalfOpen--
	c.halves.remove(c.HostOf(addr), ep)
}

// HalfOpenFull reports whether the limits forbid one more half-open endpoint for an address. The
// limits forbid a half-open endpoint if the host of the address already has its share of the limit
// on half-open endpoints. A host's share of the limit on half-open endpoints is a quarter of this
// limit, or half of it if the number of endpoints per host is unlimited. Because each host has only
// a share of the limit, one host cannot use up all half-open endpoints. If the limit for all hosts
// together is reached, the limits permit a half-open endpoint only if a different host has more
// half-open endpoints than the host of the address. To make room, the caller can end a half-open
// endpoint of the host that has the most half-open endpoints.
func (c *Census[E]) HalfOpenFull(addr string) bool {
	if c.hosts == nil {
		return c.HalfOpenSpent()
	}
	own := c.halves.of(c.HostOf(addr))
	return own >= c.shareOf(c.limits.HalfOpen) || c.HalfOpenSpent() && c.halves.most() <= own
}

// HalfOpenSpent reports whether the limit on half-open endpoints of all hosts together is reached.
func (c *Census[E]) HalfOpenSpent() bool { return c.HalfOpen >= c.limits.HalfOpen }

// OldestHalfOpen returns the oldest half-open endpoint of the host that has the most half-open
// endpoints. If several hosts have the largest number of half-open endpoints, OldestHalfOpen takes
// the host that reached this number first. The caller may call OldestHalfOpen only if there is a
// half-open endpoint.
func (c *Census[E]) OldestHalfOpen() E { return c.halves.oldest() }

// shareOf returns the part of a limit for all hosts together that a single host is allowed to use.
func (c *Census[E]) shareOf(most int) int {
	if c.limits.PerHost <= 0 {
		return max(most/2, 1)
	}
	return max(most/4, 1)
}

// AddressFull reports whether an address has reached its limit of endpoints. Before the comparison
// with the limit, AddressFull subtracts the argument "less" from the number of endpoints of the
// address.
func (c *Census[E]) AddressFull(addr string, less int) bool {
	return len(c.atAddr[addr])-less >= c.limits.PerAddress
}

// HostFull reports whether the host of an address has reached its limit of endpoints. Before the
// comparison with the limit, HostFull subtracts the argument "less" from the number of endpoints of
// the host.
func (c *Census[E]) HostFull(addr string, less int) bool {
	most := c.limits.PerHost
	return most > 0 && c.atHost[c.HostOf(addr)].Endpoints()-less >= most
}

// SoleHost reports whether all endpoints belong to the same host.
func (c *Census[E]) SoleHost() bool { return len(c.atHost) == 1 }

// Check returns an error if the counts of the Census differ from the actual numbers of endpoints
// and of half-open endpoints, and nil otherwise.
func (c *Census[E]) Check(endpoints, half int) error {
	halves, err := c.halves.check()
	if err != nil {
		return err
	}
	at, byHost := 0, 0
	for _, here := range c.atAddr {
		at += len(here)
	}
	for _, here := range c.atHost {
		byHost += here.Endpoints()
	}
	switch {
	case half != c.HalfOpen || half != halves || half > c.limits.HalfOpen:
		return fmt.Errorf("%d endpoints are half open, %d counted, %d by host, at most %d", half,
			c.HalfOpen, halves, c.limits.HalfOpen)
	case at != endpoints || byHost != endpoints:
		return fmt.Errorf("%d endpoints, %d counted by address, %d by host", endpoints, at, byHost)
	}
	return nil
}
