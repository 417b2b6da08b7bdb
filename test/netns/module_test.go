//go:build linux

package netns

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
)

// tag is that of the tests' messages.
const tag btl.Tag = 1

// module is a module on a host, and what it has heard.
type module struct {
	*btl.Module
	t      *testing.T
	got    []int // messages by sender, counted by their order
	ended  error // how the latest endpoint to end ended
	ends   int
	latest *btl.Endpoint // that a peer has opened
}

// openModule opens a module at a local address.
func openModule(t *testing.T, p Port, node string, cfg btl.Config) *module {
	t.Helper()
	info := openInfo(t, p.Host, fabric.Hints{Provider: "udp", Node: node})
	dc, err := cfg.DomainConfig(info)
	if err != nil {
		t.Fatal(err)
	}
	dom := openDomain(t, p.Host, info, dc)
	m := &module{t: t}
	p.Host.Do(func() { m.Module, err = btl.Open(dom, cfg) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	m.OnEndpoint(func(ep *btl.Endpoint, ev btl.Event, err error) {
		if ev == btl.EventConnected {
			m.latest = ep
			return
		}
		m.ended = err
		m.ends++
	})
	if err := m.Handle(tag, m.receive); err != nil {
		t.Fatal(err)
	}
	return m
}

// receive checks a message: its first byte is the sender, its content follows from its number.
func (m *module) receive(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	from := int(data[0])
	for len(m.got) <= from {
		m.got = append(m.got, 0)
	}
	if want := letter(from, m.got[from], len(data)); !bytes.Equal(data, want) {
		m.t.Errorf("message %d from %d, %d bytes: %x, want %x", m.got[from], from, len(data),
			data[:min(8, len(data))], want[:min(8, len(data))])
	}
	m.got[from]++
}

// letter is message number i of a sender.
func letter(from, i, sizeBytes int) []byte {
	l := bytes.Repeat([]byte{byte(from), byte(i), byte(i >> 8), byte(sizeBytes)}, sizeBytes/4+1)
	return l[:sizeBytes]
}

// flow is messages of one size from one module to another. They wait for each other, so that they
// arrive in order.
type flow struct {
	from, to  *module
	ep        *btl.Endpoint
	id        int
	sizeBytes int
	sent      int
	acked     int
	err       error // of the first message that failed
}

// pump sends the next messages when the ones before are acknowledged.
func (f *flow) pump() {
	for f.err == nil && f.sent == f.acked {
		frag, err := f.ep.Prepare(tag, letter(f.id, f.sent, f.sizeBytes))
		if err != nil {
			f.fail(err)
			return
		}
		frag.Signal = true
		frag.OnDone = func(_ *btl.Fragment, err error) {
			f.acked++
			f.fail(err)
		}
		st, err := f.ep.Send(f.ep.Now(), frag)
		switch {
		case errors.Is(err, btl.ErrAgain):
			_ = f.ep.Free(frag)
			return
		case err != nil:
			f.fail(err)
			return
		case st == btl.Done:
			f.acked++
		}
		f.sent++
	}
}

func (f *flow) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// world is some modules, driven by the test's goroutine, on the real clock.
type world struct {
	t       *testing.T
	modules []*module
	flows   []*flow
	start   time.Time
}

func newWorld(t *testing.T, modules ...*module) *world {
	return &world{t: t, modules: modules, start: time.Now()}
}

// flow connects and starts a flow.
func (w *world) flow(from, to *module, sizeBytes int) *flow {
	w.t.Helper()
	ep, err := from.Connect(from.Now(), to.Name())
	if err != nil {
		w.t.Fatal(err)
	}
	f := &flow{from: from, to: to, ep: ep, id: len(w.flows), sizeBytes: sizeBytes}
	w.flows = append(w.flows, f)
	return f
}

// until runs the modules until cond holds, for at most a time.
func (w *world) until(what string, limit time.Duration, cond func() bool) {
	w.t.Helper()
	for begin := time.Now(); !cond(); {
		for _, m := range w.modules {
			if _, err := m.Progress(btl.Time(time.Since(w.start)) + 1); err != nil {
				w.t.Fatalf("%s: Progress: %v", what, err)
			}
		}
		for _, f := range w.flows {
			if f.ep.Connected() {
				f.pump()
			}
		}
		if time.Since(begin) > limit {
			for _, f := range w.flows {
				s := f.from.Stats()
				w.t.Logf("flow %d: connected %v, sent %d, acknowledged %d, error %v, sent again %d", f.id,
					f.ep.Connected(), f.sent, f.acked, f.err, s.Retransmits())
				w.t.Logf("%+v", f.ep.Path())
			}
			w.t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// carries waits until a flow has carried some more messages.
func (w *world) carries(f *flow, messages int) {
	w.t.Helper()
	goal := f.acked + messages
	w.until("messages are carried", 2*patience, func() bool { return f.acked >= goal || f.err != nil })
	if f.err != nil {
		w.t.Fatalf("flow %d: %v", f.id, f.err)
	}
}

// quick ends what does not work soon.
var quick = btl.Config{HandshakeTimeout: 600 * time.Millisecond, PeerTimeout: time.Second}

// addresses are the ways to name a port.
func addresses(p Port) []string { return []string{p.V4.String(), p.V6.String(), p.Zoned()} }

// TestModules moves messages of all kinds between two hosts, over each kind of address.
func TestModules(t *testing.T) {
	for i, mtu := range []int{1500, 9000, 1500} {
		lab := New(t)
		first, second := lab.Host("a"), lab.Host("b")
		if i == 2 {
			lab.Cable(first, lab.Host("other"), 1500) // the devices have different numbers
		}
		a, b := lab.Cable(first, second, mtu)
		for j, node := range addresses(a) {
			one := openModule(t, a, node, btl.Config{})
			other := openModule(t, b, addresses(b)[j], btl.Config{})
			w := newWorld(t, one, other)
			w.carries(w.flow(one, other, 8), 300)
			w.carries(w.flow(other, one, 5000), 100)
			w.carries(w.flow(one, other, 1<<20), 8)
		}
	}
}

// TestModulePathMTU has a path whose middle carries less than the two hosts' own cables, told by
// ICMP or not: a connection carries all messages, both ways, and comes to know what passes.
func TestModulePathMTU(t *testing.T) {
	for _, tc := range []struct {
		device, path int
		told         bool
	}{
		{1500, 1400, true},
		{1500, 1400, false},
		{1500, 1280, true},
		{1500, 1280, false},
		{9000, 1500, true},
		{9000, 1500, false},
	} {
		lab := New(t)
		a, b, router := lab.Route(lab.Host("a"), lab.Host("b"), tc.device, tc.device)
		router.IP(fmt.Sprintf("link set eth0 mtu %d", tc.path),
			fmt.Sprintf("link set eth1 mtu %d", tc.path))
		if !tc.told {
			router.Silence()
		}
		for i, headers := range []int{28, 48} { // IPv4, IPv6
			one := openModule(t, a, addresses(a)[i], quick)
			other := openModule(t, b, addresses(b)[i], quick)
			w := newWorld(t, one, other)
			flows := []*flow{w.flow(one, other, 20000), w.flow(other, one, 200_000)}
			w.carries(flows[0], 20)
			w.carries(flows[1], 20)
			for _, f := range flows {
				want := tc.path - headers
				w.until("the size is found", patience, func() bool {
					return f.ep.Path().MTUBytes > want-16
				})
				if p := f.ep.Path(); p.MTUBytes > want || p.Holes != 0 {
					t.Errorf("%+v: %d bytes (%s), %d holes; the path carries %d", tc, p.MTUBytes, p.MTUWhy,
						p.Holes, want)
				}
				w.carries(f, 50)
			}
		}
	}
}

// TestModuleUnequal connects hosts with cables of different MTUs: the names tell.
func TestModuleUnequal(t *testing.T) {
	lab := New(t)
	a, b, _ := lab.Route(lab.Host("a"), lab.Host("b"), 9000, 1500)
	one, other := openModule(t, a, a.V6.String(), quick), openModule(t, b, b.V6.String(), quick)
	w := newWorld(t, one, other)
	w.carries(w.flow(one, other, 20000), 50)
	w.carries(w.flow(other, one, 20000), 50)
}

// TestModulePathShrinks lowers the MTU of the path in mid-stream, told or not: the connection goes
// on within two seconds, with what was on its way, and nothing comes twice or out of order. When
// the path carries nothing but the smallest packets it ends, and says why.
func TestModulePathShrinks(t *testing.T) {
	for _, told := range []bool{true, false} {
		for _, profile := range []string{"adaptive", "usnic"} {
			lab := New(t)
			a, b, router := lab.Route(lab.Host("a"), lab.Host("b"), 9000, 9000)
			cfg := quick
			cfg.PeerTimeout, cfg.Profile = 3*time.Second, profile
			one := openModule(t, a, a.V4.String(), cfg)
			other := openModule(t, b, b.V4.String(), cfg)
			w := newWorld(t, one, other)
			f := w.flow(one, other, 200_000)
			w.carries(f, 20)
			if p := f.ep.Path(); p.MTUBytes != 9000-28 {
				t.Fatalf("packets of %d bytes: %s", p.MTUBytes, p.MTUWhy)
			}
			if !told {
				router.Silence()
			}
			router.IP("link set eth0 mtu 1500", "link set eth1 mtu 1500")
			goal := f.acked + 5
			w.until("the connection recovers", 2*time.Second, func() bool {
				return f.acked >= goal || f.err != nil
			})
			if f.err != nil {
				t.Fatalf("%s: on a path that became narrower: %v", profile, f.err)
			}
			w.carries(f, 50)
			p := f.ep.Path()
			t.Logf("%s, told %v: %d bytes (%s), %d holes", profile, told, p.MTUBytes, p.MTUWhy, p.Holes)
			if p.Holes != 1 {
				t.Errorf("%d holes", p.Holes)
			}
			router.IP("link set eth0 mtu 600", "link set eth1 mtu 600")
			w.until("the connection ends", 5*cfg.PeerTimeout, func() bool { return f.err != nil })
			if !errors.Is(f.err, btl.ErrNarrow) {
				t.Errorf("on a path of tiny packets: %v", f.err)
			}
		}
	}
}

// TestModulePeerGone closes a module's sockets under it: its peer hears nothing but that the ports
// are unreachable, and another peer is not disturbed.
func TestModulePeerGone(t *testing.T) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	one := openModule(t, a, a.V4.String(), quick)
	stays, goes := openModule(t, b, b.V4.String(), quick), openModule(t, b, b.V4.String(), quick)
	w := newWorld(t, one, stays, goes)
	lasting, broken := w.flow(one, stays, 3000), w.flow(one, goes, 3000)
	w.carries(lasting, 20)
	w.carries(broken, 20)
	if err := goes.Close(); err != nil { // without a pass, so nobody is told
		t.Fatal(err)
	}
	w.modules = []*module{one, stays}
	w.until("it is given up", quick.PeerTimeout+patience, func() bool { return broken.err != nil })
	if !errors.Is(broken.err, btl.ErrPeerDead) && !errors.Is(broken.err, btl.ErrPeerClosed) {
		t.Errorf("a peer whose port is closed: %v", broken.err)
	}
	w.carries(lasting, 100)
	nobody := w.flow(one, goes, 100)
	w.until("nobody is there", quick.HandshakeTimeout+patience, func() bool {
		return nobody.ep.Err() != nil
	})
	if err := nobody.ep.Err(); !errors.Is(err, btl.ErrUnreachable) {
		t.Errorf("connecting to a closed port: %v", err)
	}
	w.carries(lasting, 100)
}

// TestModuleCut takes a cable away for a while, and for good.
func TestModuleCut(t *testing.T) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	one, other := openModule(t, a, a.V4.String(), quick), openModule(t, b, b.V4.String(), quick)
	w := newWorld(t, one, other)
	f := w.flow(one, other, 3000)
	w.carries(f, 20)
	b.Host.IP("link set " + b.Dev + " down")
	pause := time.Now()
	w.until("a break", patience, func() bool { return time.Since(pause) > quick.PeerTimeout/4 })
	b.Host.IP("link set " + b.Dev + " up")
	w.carries(f, 20)
	a.Host.IP("link set " + a.Dev + " down") // no route: each send fails
	w.until("given up", 4*quick.PeerTimeout+patience, func() bool { return f.err != nil })
	if !errors.Is(f.err, btl.ErrPeerDead) {
		t.Errorf("without a cable: %v", f.err)
	}
}

// TestModuleSlow streams through a device with a tiny queue, where packets are lost by the dozen.
func TestModuleSlow(t *testing.T) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	a.Slow("100mbit", 5000, 60000)
	one := openModule(t, a, a.V4.String(), btl.Config{})
	other := openModule(t, b, b.V4.String(), btl.Config{})
	w := newWorld(t, one, other)
	w.carries(w.flow(one, other, 8), 20)
	w.carries(w.flow(one, other, 100<<10), 2)
}

// TestModuleFiltered has filters refuse what the module sends, for a while.
func TestModuleFiltered(t *testing.T) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	lab.Need("nft", "nftables")
	one, other := openModule(t, a, a.V4.String(), quick), openModule(t, b, b.V4.String(), quick)
	w := newWorld(t, one, other)
	f := w.flow(one, other, 20000)
	w.carries(f, 20)
	a.Host.Filter("output", "meta l4proto udp drop")
	pause := time.Now()
	w.until("a break", patience, func() bool { return time.Since(pause) > quick.PeerTimeout/4 })
	a.Host.Unfilter()
	w.carries(f, 20)
}

// TestModuleLoses streams with one packet in a hundred lost.
func TestModuleLoses(t *testing.T) {
	lab := New(t)
	a, b := lab.Cable(lab.Host("a"), lab.Host("b"), 1500)
	b.Lose(a, 0.01)
	one := openModule(t, a, a.V4.String(), btl.Config{})
	other := openModule(t, b, b.V4.String(), btl.Config{})
	w := newWorld(t, one, other)
	w.carries(w.flow(one, other, 100<<10), 30)
	st := one.Stats()
	if n, again := st.SegmentsSent(), st.Retransmits(); again < n/1000 || again > n/4 {
		t.Errorf("of %d packets, 1 %% of them lost, %d were sent again", n, again)
	}
}
