package meet

import "fmt"

// Hosts tells which addresses are of one host: a fabric.Addresser does.
type Hosts interface {
	// Host returns what the names of all endpoints of a host have in common.
	Host(name []byte) []byte
}

// Limits bound what others may open.
type Limits struct {
	PerAddress int // endpoints of an address; 0 or less: none may be opened
	PerHost    int // endpoints of a host; 0 or less: any number
	HalfOpen   int // half-open endpoints of all hosts together; 0 or less: none
}

// Census counts the endpoints of each address and of each host, and the half-open ones.
type Census struct {
	hosts  Hosts // nil: each address is a host of its own
	limits Limits
	atAddr map[string]int32
	atHost map[string]int32
	halfAt map[string]int32 // half open, by host: empty where hosts are not told apart
	half   int
}

// Init begins a count; hosts may be nil.
func (c *Census) Init(hosts Hosts, limits Limits) {
	*c = Census{
		hosts: hosts, limits: limits, atAddr: make(map[string]int32), atHost: make(map[string]int32),
		halfAt: make(map[string]int32),
	}
}

// Limit has other limits hold from now on.
func (c *Census) Limit(limits Limits) { c.limits = limits }

func (c *Census) hostOf(addr string) string {
	if c.hosts == nil {
		return addr
	}
	return string(c.hosts.Host([]byte(addr)))
}

// SameHost says whether two addresses are of one host. Where hosts are not told apart, an address
// is a host.
func (c *Census) SameHost(a, b string) bool { return c.hostOf(a) == c.hostOf(b) }

// TellsHosts says whether hosts are told apart.
func (c *Census) TellsHosts() bool { return c.hosts != nil }

// Add counts an endpoint of an address.
func (c *Census) Add(addr string) { c.count(addr, 1) }

// Remove takes it away.
func (c *Census) Remove(addr string) { c.count(addr, -1) }

func (c *Census) count(addr string, d int32) {
	addTo(c.atAddr, addr, d)
	addTo(c.atHost, c.hostOf(addr), d)
}

// addTo adds to a count that is only kept while it is not 0.
func addTo(m map[string]int32, key string, d int32) {
	if m[key] += d; m[key] == 0 {
		delete(m, key)
	}
}

// AddHalfOpen notes that an endpoint of an address, which is counted, is half open.
func (c *Census) AddHalfOpen(addr string) { c.countHalf(addr, 1) }

// RemoveHalfOpen notes that it is no more.
func (c *Census) RemoveHalfOpen(addr string) { c.countHalf(addr, -1) }

func (c *Census) countHalf(addr string, d int) {
	c.half += d
	if c.hosts != nil {
		addTo(c.halfAt, c.hostOf(addr), int32(d))
	}
}

// At is the number of endpoints of an address.
func (c *Census) At(addr string) int { return int(c.atAddr[addr]) }

// HalfOpen is the number of half-open endpoints.
func (c *Census) HalfOpen() int { return c.half }

// HalfOpenFull says whether no more half-open endpoints are taken in from an address: there are as
// many as may be, or its host has its share of them. A host that never answers, from many ports, is
// not to lock all others out until the handshakes time out.
func (c *Census) HalfOpenFull(addr string) bool {
	if c.half >= c.limits.HalfOpen {
		return true
	}
	return c.limits.PerHost > 0 && c.hosts != nil &&
		int(c.halfAt[c.hostOf(addr)]) >= max(c.limits.HalfOpen/4, 1)
}

// AddressFull says whether an address has all the endpoints that it may have, less so many that do
// not count.
func (c *Census) AddressFull(addr string, less int) bool {
	return c.At(addr)-less >= c.limits.PerAddress
}

// HostFull says so of the host of an address.
func (c *Census) HostFull(addr string, less int) bool {
	most := c.limits.PerHost
	return most > 0 && int(c.atHost[c.hostOf(addr)])-less >= most
}

// Check compares the counts with those of the owner: of endpoints, and of half-open ones.
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
