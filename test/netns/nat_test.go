//go:build linux

package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"gobtl/btl"
)

// nat has a router write other addresses into what passes: who sits behind its eth0 goes out under
// the router's own address, at other ports, and the router's ports 4000 and 4001 lead to 5000 and
// 5001 of the host there.
func nat(router *Host, inside netip.Addr, own netip.Addr) {
	router.lab.tb.Helper()
	router.lab.Need("nft", "nftables")
	router.nft(fmt.Sprintf(`add table ip gobtlnat
add chain ip gobtlnat pre { type nat hook prerouting priority -100; policy accept; }
add chain ip gobtlnat post { type nat hook postrouting priority 100; policy accept; }
add rule ip gobtlnat pre iifname "eth1" ip daddr %[2]s udp dport 4000 dnat to %[1]s:5000
add rule ip gobtlnat pre iifname "eth1" ip daddr %[2]s udp dport 4001 dnat to %[1]s:5001
add rule ip gobtlnat post oifname "eth1" meta l4proto udp masquerade to :20000-30000 random
`, inside, own))
}

// TestModuleNAT has a module behind a router that rewrites addresses dial one outside: the answers
// go to where its packets come from. And one outside dials the one behind, at the address that the
// router maps to it and that it tells others.
func TestModuleNAT(t *testing.T) {
	lab := New(t)
	a, b, router := lab.Route(lab.Host("a"), lab.Host("b"), 1500, 1500)
	own := b.V4.Next() // the other end of the cable
	nat(router, a.V4, own)
	b.Host.IP("route del default") // what is inside cannot be reached by its own address
	cfg := quick
	cfg.Advertise = own.String() + ":4000"
	inner := openModule(t, a, a.V4.String()+":5000", cfg)
	outer := openModule(t, b, b.V4.String()+":7000", quick)
	plain := openModule(t, a, a.V4.String(), quick) // tells an address that leads nowhere outside
	w := newWorld(t, inner, outer, plain)
	for _, m := range []*module{plain, inner} {
		f := w.dial(m, outer, b.V4.String()+":7000", 3000)
		w.carries(f, 50)
		seen, err := netip.ParseAddrPort(outer.latest.PeerAddress())
		if err != nil || seen.Addr() != own {
			t.Errorf("the peer outside sees %q, want %v (%v)", outer.latest.PeerAddress(), own, err)
		}
		back := &flow{from: outer, to: m, ep: outer.latest, id: len(w.flows), sizeBytes: 20000}
		w.flows = append(w.flows, back)
		w.carries(back, 50)
	}
	if got := inner.Address(); got != own.String()+":4000,4001" {
		t.Errorf("it tells %q", got)
	}
	third := openModule(t, b, b.V4.String(), quick)
	w.modules = append(w.modules, third)
	mapped := w.dial(third, inner, own.String()+":4000", 20000)
	w.carries(mapped, 50)
	fourth := openModule(t, b, b.V4.String(), quick) // by name, which has the address that is told
	w.modules = append(w.modules, fourth)
	named := w.flow(fourth, inner, 3000)
	w.carries(named, 50)
	nobody := w.dial(fourth, inner, own.String()+":4100", 100)
	w.until("nobody is there", quick.HandshakeTimeout+patience, func() bool {
		return nobody.ep.Err() != nil
	})
	if err := nobody.ep.Err(); !errors.Is(err, btl.ErrUnreachable) {
		t.Errorf("dialling a port that is not mapped: %v", err)
	}
	begin := time.Now()
	w.until("a while passes", patience, func() bool { return time.Since(begin) > time.Second/4 })
	for _, f := range w.flows[:6] {
		if f.err != nil {
			t.Errorf("flow %d: %v", f.id, f.err)
		}
	}
}

// dial connects by an address and starts a flow.
func (w *world) dial(from, to *module, address string, sizeBytes int) *flow {
	w.t.Helper()
	ep, err := from.Dial(from.Now(), address)
	if err != nil {
		w.t.Fatal(err)
	}
	f := &flow{from: from, to: to, ep: ep, id: len(w.flows), sizeBytes: sizeBytes}
	w.flows = append(w.flows, f)
	return f
}
