package meet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
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
	var c Census[int]
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
		var c Census[int]
		var hosts Hosts
		if seed%2 == 0 {
			hosts = streets{}
		}
		c.Init(hosts, Limits{PerAddress: 3, PerHost: 5, HalfOpen: 9})
		var all, half []int // by age
		addrOf := make([]string, 200)
		for ep := range addrOf {
			addr := addrs[rnd.IntN(len(addrs))]
			addrOf[ep] = addr
			switch {
			case rnd.IntN(2) == 0:
				all = append(all, ep)
				c.enter(ep, addr)
			case len(half) < 9 && rnd.IntN(2) == 0:
				half = append(half, ep)
				c.beginHalf(ep, addr)
			case len(half) > 0 && rnd.IntN(2) == 0:
				i := rnd.IntN(len(half))
				c.endHalf(half[i], addrOf[half[i]])
				half = slices.Delete(half, i, i+1)
			case len(all) > 0:
				i := rnd.IntN(len(all))
				c.leave(all[i], addrOf[all[i]])
				all = slices.Delete(all, i, i+1)
			}
			if err := c.Check(len(all), len(half)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			at, host, halves := 0, 0, 0
			of := map[string]int{} // half-open endpoints by host
			same := func(a string) bool { return a == addr || hosts != nil && a[0] == addr[0] }
			for _, ep := range all {
				if addrOf[ep] == addr {
					at++
				}
				if same(addrOf[ep]) {
					host++
				}
			}
			most := 0
			for _, ep := range half {
				h := c.HostOf(addrOf[ep])
				of[h]++
				most = max(most, of[h])
				if hosts != nil && same(addrOf[ep]) {
					halves++
				}
			}
			if len(half) > 0 {
				victim := c.OldestHalfOpen()
				h := c.HostOf(addrOf[victim])
				first := slices.IndexFunc(half, func(ep int) bool { return c.HostOf(addrOf[ep]) == h })
				if of[h] != most || half[first] != victim {
					t.Fatalf("seed %d: endpoint %d of %q loses its place, half open are %v", seed, victim, h,
						half)
				}
			}
			if len(c.atAddr[addr]) != at || c.AddressFull(addr, 1) != (at-1 >= 3) ||
				c.HostFull(addr, 0) != (host >= 5) || c.HalfOpen != len(half) ||
				c.HalfOpenFull(addr) != (halves >= 2 || len(half) >= 9 && (hosts == nil ||
					most <= halves)) {
				t.Fatalf("seed %d: %d at %s, %d at its host, %d half open of %d", seed, at, addr, host,
					halves, len(half))
			}
		}
	}
}

// Of the hosts with the most half-open endpoints, the host that has had so many for the longest
// time loses its oldest. Of hosts with one half-open endpoint each, the first loses it first.
func TestHalvesInTurn(t *testing.T) {
	var c Census[int]
	c.Init(streets{}, Limits{PerHost: 100, HalfOpen: 100})
	addrOf := map[int]string{}
	begin := func(ep int, host byte) {
		addrOf[ep] = fmt.Sprintf("%c:%d", host, ep)
		c.beginHalf(ep, addrOf[ep])
	}
	begin(1, 'a')
	begin(2, 'b')
	begin(3, 'b')
	begin(4, 'a')
	begin(5, 'c')
	for _, want := range []int{2, 1, 5, 3, 4} {
		got := c.OldestHalfOpen()
		if got != want {
			t.Errorf("endpoint %d loses its place, want %d", got, want)
		}
		c.endHalf(got, addrOf[got])
	}
	if err := c.Check(0, 0); err != nil {
		t.Error(err)
	}
}

// A count that is not the owner's is noticed, as are limits that do not hold.
func TestCensusCheck(t *testing.T) {
	var c Census[int]
	c.Init(streets{}, Limits{HalfOpen: 1})
	c.enter(1, "a:1")
	c.beginHalf(1, "a:1")
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
