package btl

import "gobtl/fabric"

// crowd counts the endpoints of each address and of each host.
type crowd struct {
	hosts  fabric.Addresser // nil: each address is a host of its own
	atAddr map[string]int32
	atHost map[string]int32
}

func (c *crowd) init(dom fabric.Domain) {
	c.hosts, _ = dom.(fabric.Addresser)
	c.atAddr, c.atHost = make(map[string]int32), make(map[string]int32)
}

func (c *crowd) hostOf(addr string) string {
	if c.hosts == nil {
		return addr
	}
	return string(c.hosts.Host([]byte(addr)))
}

// count adds d to the endpoints of an address.
func (c *crowd) count(addr string, d int32) {
	add := func(m map[string]int32, key string) {
		if m[key] += d; m[key] == 0 {
			delete(m, key)
		}
	}
	add(c.atAddr, addr)
	add(c.atHost, c.hostOf(addr))
}

// endpoints is the number of endpoints that are counted.
func (c *crowd) endpoints() (n int) {
	for _, here := range c.atAddr {
		n += int(here)
	}
	return n
}
