//go:build linux

package netns

import (
	"bytes"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
	_ "gobtl/fabric/net"
	_ "gobtl/fabric/udp" // registers the family
)

// patience is how long a test waits for what must happen.
const patience = 10 * time.Second

// end is a bare endpoint of the udp provider on a host.
type end struct {
	t    *testing.T
	dom  fabric.Domain
	ep   fabric.Endpoint
	info fabric.Info
	caps fabric.Caps
}

// openInfo asks a host's udp provider.
func openInfo(t *testing.T, h *Host, hints fabric.Hints) (info fabric.Info) {
	t.Helper()
	h.Do(func() {
		infos, err := fabric.GetInfo(hints)
		if err != nil {
			t.Fatalf("host %s: %+v: %v", h.Name, hints, err)
		}
		info = infos[0]
	})
	return info
}

func openDomain(
	t testing.TB, h *Host, info fabric.Info, cfg fabric.DomainConfig,
) (d fabric.Domain) {
	t.Helper()
	h.Do(func() {
		var err error
		if d, err = fabric.Open(info, cfg); err != nil {
			t.Fatalf("host %s: %v", h.Name, err)
		}
	})
	return d
}

// Buffers of an end: the first ones receive, the others are for sending.
const recvBuffers, sendBuffers = 256, 256

// openEnd opens an endpoint at a local address, with receives posted.
func openEnd(t *testing.T, h *Host, provider, node string) *end {
	t.Helper()
	e := &end{t: t, info: openInfo(t, h, fabric.Hints{Provider: provider, Node: node})}
	e.dom = openDomain(t, h, e.info, fabric.DomainConfig{Buffers: recvBuffers + sendBuffers})
	t.Cleanup(func() { e.dom.Close() })
	// OpenEndpoint makes the socket, so it has to be on the host too.
	var err error
	h.Do(func() { e.ep, err = e.dom.OpenEndpoint(fabric.EndpointConfig{}) })
	if err != nil {
		t.Fatal(err)
	}
	e.caps = e.ep.Caps()
	for b := range fabric.Buf(recvBuffers) {
		e.recv(b)
	}
	return e
}

func (e *end) recv(b fabric.Buf) {
	e.t.Helper()
	if n, err := e.ep.Recv([]fabric.Buf{b}); n != 1 || err != nil {
		e.t.Fatalf("Recv: %d, %v", n, err)
	}
}

func (e *end) insert(peer *end) fabric.Addr {
	e.t.Helper()
	a, err := e.dom.Insert(peer.ep.Name())
	if err != nil {
		e.t.Fatal(err)
	}
	return a
}

// content is datagram number i of a size.
func content(i, sizeBytes int) []byte {
	return bytes.Repeat([]byte{byte(i), byte(i >> 8), byte(sizeBytes)}, sizeBytes/3+1)[:sizeBytes]
}

// post offers count datagrams of a size in one batch.
func (e *end) post(to fabric.Addr, first, count, sizeBytes int) (int, error) {
	e.t.Helper()
	arena := e.dom.Arena()
	sends := make([]fabric.Send, count)
	for i := range sends {
		b := fabric.Buf(recvBuffers + i)
		copy(arena.Bytes(b), content(first+i, sizeBytes))
		sends[i] = fabric.Send{To: to, Buf: b, Len: uint32(sizeBytes)}
	}
	n, err := e.ep.Post(sends)
	if n < 0 || n > count || (n == count) != (err == nil) {
		e.t.Fatalf("Post of %d returned %d, %v", count, n, err)
	}
	return n, err
}

// poll returns what has arrived.
func (e *end) poll() (got [][]byte) {
	e.t.Helper()
	var out [64]fabric.Completion
	n, err := e.ep.Poll(out[:])
	if err != nil {
		e.t.Fatalf("Poll: %v", err)
	}
	arena := e.dom.Arena()
	for _, c := range out[:n] {
		if c.Op != fabric.OpRecv || c.Errno != 0 || int(c.Len) > arena.Size() {
			e.t.Fatalf("completion %+v", c)
		}
		got = append(got, bytes.Clone(arena.Bytes(c.Buf)[:c.Len]))
		e.recv(c.Buf)
	}
	return got
}

// expect waits for datagrams first to first+count-1.
func (e *end) expect(first, count, sizeBytes int) {
	e.t.Helper()
	next := 0
	for start := time.Now(); next < count; {
		for _, d := range e.poll() {
			if want := content(first+next, sizeBytes); !bytes.Equal(d, want) {
				e.t.Fatalf("datagram %d of %d is %d bytes %x..., want %d bytes %x...", next, count, len(d),
					d[:min(8, len(d))], sizeBytes, want[:min(8, len(want))])
			}
			next++
		}
		if time.Since(start) > patience {
			e.t.Fatalf("%d of %d datagrams of %d bytes have arrived", next, count, sizeBytes)
		}
	}
}

// exchange sends bursts both ways: single datagrams, runs, and all of it up to the MTU.
func exchange(a, b *end) {
	a.t.Helper()
	size := min(a.caps.MTUBytes, b.caps.MTUBytes)
	for _, pair := range [][2]*end{{a, b}, {b, a}} {
		tx, rx := pair[0], pair[1]
		to := tx.insert(rx)
		for i, count := range []int{1, 2, 20, 50, 50, 50} {
			for _, sizeBytes := range []int{8, size / 3, size} {
				if n, err := tx.post(to, i*100, count, sizeBytes); err != nil {
					tx.t.Fatalf("%d datagrams of %d bytes: %d posted, %v", count, sizeBytes, n, err)
				}
				rx.expect(i*100, count, sizeBytes)
			}
		}
	}
}

// TestSuiteOnCable runs the providers' suite between two hosts.
func TestSuiteOnCable(t *testing.T) {
	for _, tc := range []struct {
		name string
		mtu  int
		node func(p Port) string
	}{
		{"mtu1500", 1500, func(p Port) string { return p.V4.String() }},
		{"mtu9000 ip6", 9000, func(p Port) string { return p.V6.String() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lab := New(t)
			a, b := lab.Cable(lab.Host("a"), lab.Host("b"), tc.mtu)
			ports, opened := [2]Port{a, b}, 0
			fabrictest.Run(t, fabrictest.Fixture{
				Name: "udp on veth, " + tc.name,
				Open: func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
					p := ports[opened%2]
					opened++
					info := openInfo(t, p.Host, fabric.Hints{Provider: "udp", Node: tc.node(p)})
					return hosted{openDomain(tb, p.Host, info, cfg), p.Host}
				},
			})
		})
	}
}

// hosted is a domain whose endpoints are opened on its host.
type hosted struct {
	fabric.Domain
	host *Host
}

func (d hosted) OpenEndpoint(cfg fabric.EndpointConfig) (ep fabric.Endpoint, err error) {
	d.host.Do(func() { ep, err = d.Domain.OpenEndpoint(cfg) })
	return ep, err
}

func (d hosted) Wait(timeout time.Duration) error { return d.Domain.(fabric.Waiter).Wait(timeout) }

func (d hosted) Wake() { d.Domain.(fabric.Waiter).Wake() }

// TestNodes picks a device by each of its names, and takes the MTU from it.
func TestNodes(t *testing.T) {
	lab := New(t)
	a, b := lab.Host("a"), lab.Host("b")
	lab.Cable(a, lab.Host("other"), 1400) // so that the numbers of the devices differ
	pa, pb := lab.Cable(a, b, 9000)
	const headers4, headers6 = 28, 48
	for _, tc := range []struct {
		nodeA, nodeB string
		mtu          int
	}{
		{pa.V4.String(), pb.V4.String(), 9000 - headers4},
		{pa.V6.String(), pb.V6.String(), 9000 - headers6},
		{pa.Zoned(), pb.Zoned(), 9000 - headers6},
		{pa.Dev, pb.Dev, 9000 - headers4},
	} {
		t.Run(tc.nodeA, func(t *testing.T) {
			ea, eb := openEnd(t, a, "udp", tc.nodeA), openEnd(t, b, "udp", tc.nodeB)
			if ea.info.Domain != pa.Dev || ea.caps.MTUBytes != tc.mtu || ea.info.MTUBytes != tc.mtu ||
				eb.caps.MTUBytes != tc.mtu {
				t.Errorf("at %s: %+v, %+v; want %s, MTU %d", tc.nodeA, ea.info, ea.caps, pa.Dev, tc.mtu)
			}
			exchange(ea, eb)
		})
	}
	elsewhere := pa.LinkLocal.WithZone("eth7").String()
	for _, bad := range []string{"eth7", "10.99.77.7", "fe80::77%eth0", elsewhere} {
		a.Do(func() {
			if infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: bad}); err == nil {
				t.Errorf("node %s: %+v", bad, infos)
			}
		})
	}
	if info := openInfo(t, b, fabric.Hints{Provider: "udp"}); info.Domain != pb.Dev {
		t.Errorf("without a node: %+v, want %s", info, pb.Dev)
	}
}

// TestOffloads sends runs through devices that lack what segmentation and coalescing like to have,
// or that have what coalesces more.
func TestOffloads(t *testing.T) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	set := func(on bool, names ...string) {
		for _, name := range names {
			a.Feature(name, on)
			b.Feature(name, on)
		}
	}
	all := []string{"tx-checksum-ip-generic", "tx-scatter-gather", "tx-udp-segmentation"}
	for _, tc := range []struct{ off, on []string }{
		{off: all[:1]},
		{off: all[2:]},
		{off: all},
		{on: []string{"rx-gro"}},
		{off: []string{"tx-udp-segmentation"}, on: []string{"rx-gro"}}, // something to coalesce
	} {
		set(false, tc.off...)
		set(true, tc.on...)
		for _, nodes := range [][2]string{
			{a.V4.String(), b.V4.String()}, {a.V6.String(), b.V6.String()},
		} {
			for _, provider := range []string{"udp", "udp;nogro"} {
				exchange(openEnd(t, a.Host, "udp", nodes[0]), openEnd(t, b.Host, provider, nodes[1]))
			}
		}
		set(true, all...)
		set(false, "rx-gro")
	}
}

// TestPathMTU has a router refuse what the sender's own cable allows: those datagrams vanish,
// single or in a run, and smaller ones go on, also when the router's report, or a forged one, names
// a size that is much smaller than what passes.
func TestPathMTU(t *testing.T) {
	lab := New(t)
	a, b, _ := lab.Route(lab.Host("a"), lab.Host("b"), 9000, 1500)
	for _, nodes := range [][2]string{
		{a.V4.String(), b.V4.String()}, {a.V6.String(), b.V6.String()},
	} {
		for _, provider := range []string{"udp", "udp;nogso;nommsg"} {
			ea, eb := openEnd(t, a.Host, provider, nodes[0]), openEnd(t, b.Host, "udp", nodes[1])
			to, size := ea.insert(eb), eb.caps.MTUBytes
			for i := range 10 {
				for _, tooLarge := range []int{size + 1, ea.caps.MTUBytes} {
					if n, err := ea.post(to, 0, 8, tooLarge); n != 8 {
						t.Fatalf("%s: a run of %d bytes: %d, %v", nodes[0], tooLarge, n, err)
					}
				}
				if n, err := ea.post(to, i*20, 20, size); n != 20 {
					t.Fatalf("%s: a run of the path's MTU: %d, %v", nodes[0], n, err)
				}
				eb.expect(i*20, 20, size)
			}
			a.Host.IP("route replace "+b.V4.String()+" mtu 600 via "+gateway(a.V4),
				"route replace "+b.V6.String()+" mtu 1280 via "+gateway(a.V6))
			if n, err := ea.post(to, 500, 20, size); n != 20 {
				t.Errorf("%s: the host was told of a smaller MTU: %d, %v", nodes[0], n, err)
			}
			eb.expect(500, 20, size)
			a.Host.IP("route del "+b.V4.String(), "route del "+b.V6.String())
			if n, err := ea.post(to, 0, 1, ea.caps.MTUBytes+1); n != 0 ||
				!errors.Is(err, syscall.EMSGSIZE) {
				t.Errorf("%s: larger than the device takes: %d, %v", nodes[0], n, err)
			}
		}
	}
}

// gateway is the other end of a port's cable.
func gateway(p netip.Addr) string { return p.Next().String() }

// TestPortUnreachable sends to a port that is closed, in between to one that is not.
func TestPortUnreachable(t *testing.T) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	for _, nodes := range [][2]string{
		{a.V4.String(), b.V4.String()}, {a.V6.String(), b.V6.String()},
	} {
		tx, rx := openEnd(t, a.Host, "udp", nodes[0]), openEnd(t, b.Host, "udp", nodes[1])
		gone := openEnd(t, b.Host, "udp", nodes[1])
		nobody, to := tx.insert(gone), tx.insert(rx)
		if err := gone.ep.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			n, err := tx.post(nobody, 0, 1+i%5, 100)
			if n == 0 && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fabric.ErrAgain) {
				t.Fatalf("to a closed port: %v", err)
			}
			if n, err := tx.post(to, i, 1+i%5, 100); n != 1+i%5 {
				t.Fatalf("after a closed port: %d of %d, %v", n, 1+i%5, err)
			}
			rx.expect(i, 1+i%5, 100)
			tx.poll()
		}
	}
}

// TestFiltered has a filter forbid the sending to one port: those datagrams fail, one by one, and
// the others go.
func TestFiltered(t *testing.T) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	lab.Need("nft", "nftables")
	for _, provider := range []string{"udp", "udp;nogso", "udp;nommsg"} {
		tx, rx := openEnd(t, a.Host, provider, a.V4.String()), openEnd(t, b.Host, "udp", b.V4.String())
		exchange(tx, rx)
		to := tx.insert(rx)
		a.Host.Filter("output", "meta l4proto udp meta length > 1000 drop")
		for i := range 5 {
			if n, err := tx.post(to, 0, 4, 1200); n != 0 || !errors.Is(err, syscall.EPERM) {
				t.Errorf("%s: a run that the filter drops: %d, %v", provider, n, err)
			}
			if n, err := tx.post(to, i*10, 1, 500); n != 1 {
				t.Errorf("%s: another one: %d, %v", provider, n, err)
			}
			rx.expect(i*10, 1, 500)
		}
		a.Host.Unfilter()
		exchange(tx, rx)
	}
}

// TestSlowCable offers much more than a slow device takes: Post succeeds or returns ErrAgain, and
// what arrives is in order.
func TestSlowCable(t *testing.T) {
	for _, provider := range []string{"udp", "net"} {
		t.Run(provider, func(t *testing.T) { slowCable(t, provider) })
	}
}

func slowCable(t *testing.T, provider string) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	for _, limitBytes := range []int{5000, 20 << 20} { // the device drops; the socket's buffer is full
		a.Slow("40mbit", 5000, limitBytes)
		tx := openEnd(t, a.Host, provider, a.V4.String())
		rx := openEnd(t, b.Host, provider, b.V4.String())
		to := tx.insert(rx)
		offered, again, arrived, last := 0, 0, 0, -1
		take := func() {
			for _, d := range rx.poll() {
				i := int(d[0]) | int(d[1])<<8
				if !bytes.Equal(d, content(i, len(d))) || i <= last {
					t.Fatalf("datagram %d after %d", i, last)
				}
				last = i
				arrived++
			}
		}
		for start := time.Now(); offered < 20000 && time.Since(start) < 300*time.Millisecond; {
			n, err := tx.post(to, offered, 40, 1400)
			if err != nil && !errors.Is(err, fabric.ErrAgain) {
				t.Fatalf("after %d datagrams: %v", offered, err)
			}
			if offered += n; err != nil {
				again++
			}
			take()
		}
		t.Logf("limit %d: %d taken, %d times ErrAgain, %d arrived so far", limitBytes, offered, again,
			arrived)
		if arrived == 0 {
			t.Errorf("limit %d: %d taken, %d times ErrAgain, none arrived", limitBytes, offered, again)
		}
		if limitBytes > 1<<20 && again == 0 && offered < 20000 {
			t.Errorf("limit %d: %d taken and never ErrAgain", limitBytes, offered)
		}
	}
}
