package meet

import (
	"fmt"
	"strings"
)

// Hosts finds out which addresses belong to the same host.
type Hosts interface {
	// Host returns the part of an address that all endpoints of a host have in common. An IPv6 host
	// may use all addresses of its network, so the part is the network.
	Host(name []byte) []byte
	// FormatName returns an address as text, which ends with a colon and the port.
	FormatName(name []byte) string
}

// Limits holds the maximum numbers of endpoints that peers may open.
type Limits struct {
	PerAddress int // endpoints of an address; 0 or less: none may be opened
	PerHost    int // endpoints of a host; 0 or less: any number
	HalfOpen   int // half-open endpoints of all hosts together; 0 or less: none
}

// Census counts the endpoints of each address and of each host, and the half-open endpoints.
type Census struct {
	hosts  Hosts // nil: each address is a host of its own
	limits Limits
	atAddr map[string]int32
	atHost map[string]int32
	halfAt map[string]int32 // half-open endpoints by host; empty if hosts is nil
	half   int
}

// Init makes an empty Census, where a nil hosts means that each address counts as its own host.
func (c *Census) Init(hosts Hosts, limits Limits) {
	*c = Census{
		hosts: hosts, limits: limits, atAddr: make(map[string]int32), atHost: make(map[string]int32),
		halfAt: make(map[string]int32),
	}
}

// Limit replaces the limits.
func (c *Census) Limit(limits Limits) { c.limits = limits }

// HostOf returns the part of an address that all endpoints of the same host have in common. If
// the fabric cannot tell hosts apart, HostOf returns the whole address.
func (c *Census) HostOf(addr string) string {
	if c.hosts == nil {
		return addr
	}
	return string(c.hosts.Host([]byte(addr)))
}

// SameHost reports whether two addresses belong to the same host. If the fabric cannot tell hosts
// apart, each address counts as its own host.
func (c *Census) SameHost(a, b string) bool { return c.HostOf(a) == c.HostOf(b) }

// SameAddress reports whether two addresses differ in nothing but the port. SameAddress must be
// called only if TellsHosts returns true.
func (c *Census) SameAddress(a, b string) bool {
	first, second := c.hosts.FormatName([]byte(a)), c.hosts.FormatName([]byte(b))
	i, j := strings.LastIndexByte(first, ':'), strings.LastIndexByte(second, ':')
	return i >= 0 && j >= 0 && first[:i] == second[:j]
}

// TellsHosts reports whether the fabric can tell which addresses belong to one host.
func (c *Census) TellsHosts() bool { return c.hosts != nil }

// Add counts an endpoint of an address.
func (c *Census) Add(addr string) { c.count(addr, 1) }

// Remove subtracts an endpoint of an address from the counts.
func (c *Census) Remove(addr string) { c.count(addr, -1) }

func (c *Census) count(addr string, d int32) {
	addTo(c.atAddr, addr, d)
	addTo(c.atHost, c.HostOf(addr), d)
}

func addTo(m map[string]int32, key string, d int32) {
	if m[key] += d; m[key] == 0 {
		delete(m, key)
	}
}

// AddHalfOpen records that a counted endpoint of an address is half open.
func (c *Census) AddHalfOpen(addr string) { c.countHalf(addr, 1) }

// RemoveHalfOpen records that an endpoint of an address is no longer half open.
func (c *Census) RemoveHalfOpen(addr string) { c.countHalf(addr, -1) }

func (c *Census) countHalf(addr string, d int) {
	c.half += d
	if c.hosts != nil {
		addTo(c.halfAt, c.HostOf(addr), int32(d))
	}
}

// At is the number of endpoints of an address.
func (c *Census) At(addr string) int { return int(c.atAddr[addr]) }

// HalfOpen returns the number of half-open endpoints.
func (c *Census) HalfOpen() int { return c.half }

// HalfOpenFull reports whether no more half-open endpoints may be made for an address.
// HalfOpenFull returns true if the limit on half-open endpoints is reached, or if the host
// of the address has its share of that limit. The share of a host is a quarter of the limit
// on half-open endpoints, or a half if hosts may open any number of endpoints. A host that
// never answers cannot exclude all other hosts until its handshakes time out.
func (c *Census) HalfOpenFull(addr string) bool {
	if c.half >= c.limits.HalfOpen {
		return true
	}
	return c.hosts != nil && int(c.halfAt[c.HostOf(addr)]) >= c.shareOf(c.limits.HalfOpen)
}

// shareOf returns the part of a limit for all hosts that one host may use.
func (c *Census) shareOf(most int) int {
	if c.limits.PerHost <= 0 {
		return max(most/2, 1)
	}
	return max(most/4, 1)
}

// AddressFull reports whether an address has reached its limit of endpoints. The argument less of
// AddressFull is a number of endpoints of the address that are not counted.
func (c *Census) AddressFull(addr string, less int) bool {
	return c.At(addr)-less >= c.limits.PerAddress
}

// HostFull reports whether the host of an address has reached its limit of endpoints. The
// argument less of HostFull is a number of endpoints of the host that are not counted.
func (c *Census) HostFull(addr string, less int) bool {
	most := c.limits.PerHost
	return most > 0 && int(c.atHost[c.HostOf(addr)])-less >= most
}

// Check compares the counts with the actual numbers of endpoints and of half-open endpoints.
func (c *Census) Check(endpoints, half int) error {
	switch at, byHost, halves := sum(c.atAddr), sum(c.atHost), sum(c.halfAt); {
	case half != c.half || half > c.limits.HalfOpen:
		return fmt.Errorf("%d endpoints are half open, %d counted, at most %d", half, c.half,
			c.limits.HalfOpen)
	case c.hosts != nil && halves != half:
		return fmt.Errorf("%d endpoints are half open, %d counted by host", half, halves)
	case at != endpoints || byHost != endpoints:
		return fmt.Errorf("%d endpoints, %d counted by address, %d by host", endpoints, at, byHost)
	}
	return nil
}

func sum(counts map[string]int32) (n int) {
	for _, here := range counts {
		n += int(here)
	}
	return n
}
