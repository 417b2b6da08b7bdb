//go:build linux

package netns

import (
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
)

// Devices that let a run of datagrams pass, which the kernel has as one packet, and drop a single
// datagram of the same size.

// sizeFound waits until the sizes of flows are at most so many bytes, and near that.
func (w *world) sizeFound(want int) {
	w.t.Helper()
	const grain = 16
	w.until(fmt.Sprintf("a size of %d bytes is found", want), 2*patience, func() bool {
		for _, f := range w.flows {
			if n := f.ep.Path().MTUBytes; f.err != nil || n > want || n < want-grain {
				return false
			}
		}
		return true
	})
}

// TestBridgePort lowers the MTU of a bridge's port in mid-stream: single packets are lost from then
// on, runs are not. A connection that has both comes to the size that single ones have.
func TestBridgePort(t *testing.T) {
	lab := New(t)
	bridge := lab.Host("bridge")
	a, _ := lab.Cable(lab.Host("a"), bridge, 1500)
	b, _ := lab.Cable(lab.Host("b"), bridge, 1500)
	bridge.IP("link add br0 type bridge", "link set eth0 master br0", "link set eth1 master br0",
		"link set br0 up")
	a.Host.IP("addr add 10.98.0.1/24 dev eth0")
	b.Host.IP("addr add 10.98.0.2/24 dev eth0")
	one := openModule(t, a, "10.98.0.1", btl.Config{})
	other := openModule(t, b, "10.98.0.2", btl.Config{})
	w := newWorld(t, one, other)
	single, runs := w.flow(one, other, 1400), w.flow(one, other, 200_000)
	w.carries(single, 20)
	w.carries(runs, 20)
	if p := runs.ep.Path(); p.MTUBytes != 1472 {
		t.Fatalf("packets of %d bytes: %s", p.MTUBytes, p.MTUWhy)
	}
	bridge.IP("link set eth1 mtu 1300")
	w.sizeFound(1300 + 4 - 28) // The bridge leaves room for a VLAN's tag.
	w.carries(single, 100)
	w.carries(runs, 20)
	if one.ends+other.ends > 0 {
		t.Error("a connection has ended")
	}
}

// TestTunnelRuns has a VXLAN whose MTU is that of the cable below it, and that fragments nothing.
// Its check of a run is 8 bytes more generous than that of a single datagram.
func TestTunnelRuns(t *testing.T) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	for i, p := range []Port{a, b} {
		far := b
		if i == 1 {
			far = a
		}
		p.Host.IP(
			fmt.Sprintf("link add vx0 type vxlan id 5 local %s remote %s dstport 4789 df set",
				p.V4, far.V4),
			"link set vx0 mtu 1500 up", fmt.Sprintf("addr add 10.98.0.%d/24 dev vx0", i+1))
	}
	for range 5 {
		one := openModule(t, a, "10.98.0.1", btl.Config{})
		other := openModule(t, b, "10.98.0.2", btl.Config{})
		w := newWorld(t, one, other)
		there, back := w.flow(one, other, 64<<10), w.flow(other, one, 64<<10)
		w.sizeFound(1422)
		w.carries(there, 200)
		w.carries(back, 200)
		hold := time.Now().Add(100 * time.Millisecond)
		w.until("the sizes stay", patience, func() bool { return time.Now().After(hold) })
		w.sizeFound(1422)
	}
}
