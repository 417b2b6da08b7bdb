package meet

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// streets tells the host of an address by what stands before the colon.
type streets struct{}

func (streets) Host(name []byte) []byte { return name[:bytes.IndexByte(name, ':')] }

func (streets) FormatName(name []byte) string { return string(name) }

// A host is a whole network in IPv6. An address of the network is not the address of another host.
type networks struct{ streets }

func (networks) Host([]byte) []byte { return nil }

func TestSameAddress(t *testing.T) {
	var c Census
	c.Init(networks{}, Limits{})
	if !c.SameHost("a:1", "b:1") || !c.SameAddress("a:1", "a:2") || c.SameAddress("a:1", "b:1") ||
		c.SameAddress("a", "a") {
		t.Error("addresses of one network are not told apart")
	}
}

// The counts are those of a model, and the limits are seen where they are.
func TestCensus(t *testing.T) {
	addrs := []string{"a:1", "a:2", "a:3", "b:1", "b:2", "c:1"}
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var c Census
		var hosts Hosts
		if seed%2 == 0 {
			hosts = streets{}
		}
		c.Init(hosts, Limits{PerAddress: 3, PerHost: 5, HalfOpen: 9})
		var all, half []string
		for range 200 {
			addr := addrs[rnd.IntN(len(addrs))]
			switch {
			case rnd.IntN(2) == 0:
				all = append(all, addr)
				c.Add(addr)
			case len(half) < 9 && rnd.IntN(2) == 0:
				half = append(half, addr)
				c.AddHalfOpen(addr)
			case len(half) > 0 && rnd.IntN(2) == 0:
				c.RemoveHalfOpen(half[0])
				half = half[1:]
			case len(all) > 0:
				c.Remove(all[0])
				all = all[1:]
			}
			if err := c.Check(len(all), len(half)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			at, host, halves := 0, 0, 0
			same := func(a string) bool { return a == addr || hosts != nil && a[0] == addr[0] }
			for _, a := range all {
				if a == addr {
					at++
				}
				if same(a) {
					host++
				}
			}
			for _, a := range half {
				if hosts != nil && same(a) {
					halves++
				}
			}
			if c.At(addr) != at || c.AddressFull(addr, 1) != (at-1 >= 3) ||
				c.HostFull(addr, 0) != (host >= 5) || c.HalfOpen() != len(half) ||
				c.HalfOpenFull(addr) != (len(half) >= 9 || halves >= 2) {
				t.Fatalf("seed %d: %d at %s, %d at its host, %d half open of %d", seed, at, addr, host,
					halves, len(half))
			}
		}
	}
}

// A count that is not the owner's is noticed, as are limits that do not hold.
func TestCensusCheck(t *testing.T) {
	var c Census
	c.Init(streets{}, Limits{HalfOpen: 1})
	c.Add("a:1")
	c.AddHalfOpen("a:1")
	if err := c.Check(1, 1); err != nil {
		t.Fatal(err)
	}
	if c.Check(2, 1) == nil || c.Check(1, 0) == nil {
		t.Error("another count passes")
	}
	if !c.TellsHosts() || !c.SameHost("a:1", "a:2") || c.SameHost("a:1", "b:1") {
		t.Error("hosts are not told apart")
	}
	if c.HostFull("a:1", 0) {
		t.Error("no limit of a host, and it is full")
	}
	c.Limit(Limits{HalfOpen: 0})
	if c.Check(1, 1) == nil {
		t.Error("more are half open than may be")
	}
}
