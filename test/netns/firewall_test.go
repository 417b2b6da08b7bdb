//go:build linux

package netns

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
)

// firewall has a router let pass what belongs to a connection that the host behind its eth0 has
// begun, and forget a connection by which nothing passes for a second.
func firewall(router *Host) {
	router.lab.tb.Helper()
	router.Filter("forward", "ct state established accept", `iifname "eth0" ct state new accept`,
		"meta l4proto udp counter drop")
	router.Sysctl("net/netfilter/nf_conntrack_udp_timeout", "1")
	router.Sysctl("net/netfilter/nf_conntrack_udp_timeout_stream", "1")
}

// TestModuleFirewall has a host behind a stateful firewall dial one outside. The one outside can
// send large messages after a silence that is longer than the firewall's timeout, and after a time
// in which only small ones have passed, by the other pair of ports.
func TestModuleFirewall(t *testing.T) {
	lab := New(t)
	lab.Need("nft", "nftables")
	a, b, router := lab.Route(lab.Host("a"), lab.Host("b"), 1500, 1500)
	firewall(router)
	cfg := quick
	cfg.KeepAlive = 300 * time.Millisecond
	inner := openModule(t, a, a.V4.String(), cfg)
	outer := openModule(t, b, b.V4.String()+":7000", quick)
	if err := outer.Handle(tag+1, func(*btl.Endpoint, btl.Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, inner, outer)
	dialled, err := inner.Dial(inner.Now(), b.V4.String()+":7000")
	if err != nil {
		t.Fatal(err)
	}
	w.until("connected", patience, func() bool { return outer.latest != nil })
	for round, every := range []time.Duration{time.Hour, 100 * time.Millisecond} {
		next := time.Now().Add(every)
		end := time.Now().Add(2500 * time.Millisecond)
		w.until("a while passes", patience+5*time.Second, func() bool {
			if now := time.Now(); now.After(next) {
				next = now.Add(every)
				sendSmall(t, dialled)
			}
			return time.Now().After(end)
		})
		f := &flow{from: outer, to: inner, ep: outer.latest, id: round, sizeBytes: 3000}
		w.flows = append(w.flows, f)
		w.carries(f, 1)
		w.flows = w.flows[:0]
	}
}

func sendSmall(t *testing.T, ep *btl.Endpoint) {
	t.Helper()
	f, err := ep.Prepare(tag+1, make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ep.Send(ep.Now(), f); err != nil {
		t.Fatal(err)
	}
}

// TestModuleOnePort has something on the way let one of the two ports pass, and a caller who names
// a wrong second port: the error tells which of them answers and which does not.
func TestModuleOnePort(t *testing.T) {
	lab := New(t)
	lab.Need("nft", "nftables")
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	inner := openModule(t, a, a.V4.String(), quick)
	outer := openModule(t, b, b.V4.String()+":4000", quick)
	w := newWorld(t, inner, outer)
	command, data := " by %[1]v:4000 (command channel)", " by %[1]v:4001 (data channel)"
	for _, c := range []struct{ rule, address, answers, not string }{
		{"udp dport 4001 drop", "%v:4000", command, data},
		{"udp sport 4000 drop", "%v:4000", data, command},
		{"udp dport 9 drop", "%v:4000,4002", command, " by %[1]v:4002 (data channel)"},
	} {
		b.Host.Filter("input", c.rule)
		b.Host.Filter("output", c.rule)
		ep, err := inner.Dial(inner.Now(), fmt.Sprintf(c.address, b.V4))
		if err != nil {
			t.Fatal(err)
		}
		w.until("it fails", quick.HandshakeTimeout+patience, func() bool { return ep.Err() != nil })
		want := fmt.Sprintf("it answers"+c.answers+" but not"+c.not+": both ports must pass", b.V4)
		if err := ep.Err(); !errors.Is(err, btl.ErrUnreachable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", c.rule, err, want)
		}
		b.Host.Unfilter()
	}
}
