//go:build linux

package udp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
	"gobtl/internal/testenv"
)

// pair is a domain with two endpoints on the loopback device.
type pair struct {
	tb   testing.TB
	d    *domain
	a, b *endpoint
	to   fabric.Addr
}

func newPair(tb testing.TB, o Options, cfg fabric.DomainConfig, ep fabric.EndpointConfig) *pair {
	tb.Helper()
	p := &pair{tb: tb, d: open(tb, o, cfg)}
	tb.Cleanup(func() { p.d.Close() })
	for _, to := range []**endpoint{&p.a, &p.b} {
		e, err := p.d.OpenEndpoint(ep)
		if err != nil {
			tb.Fatal(err)
		}
		*to = e.(*endpoint)
	}
	var err error
	if p.to, err = p.d.Insert(p.b.Name()); err != nil {
		tb.Fatal(err)
	}
	return p
}

func open(tb testing.TB, o Options, cfg fabric.DomainConfig) *domain {
	tb.Helper()
	p := New(o)
	infos, err := p.GetInfo(fabric.Hints{Node: "127.0.0.1"})
	if err != nil || len(infos) == 0 {
		tb.Fatalf("GetInfo: %d infos, %v", len(infos), err)
	}
	d, err := p.Open(infos[0], cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return d.(*domain)
}

// shape is what plan made of a batch: for each message, the sizes of its datagrams' total, the
// number of sends, the segment size (0 for none) and the iovecs.
type shape struct{ sends, segment, iovecs, bytes int }

func (t *sender) shapes() []shape {
	var list []shape
	for m := range t.count {
		h := &t.msgs[m]
		s := shape{sends: t.first[m+1] - t.first[m], iovecs: int(h.iovLen)}
		first := int(h.iov-uintptr(unsafe.Pointer(&t.iov[0]))) / int(unsafe.Sizeof(iovec{}))
		for _, v := range t.iov[first : first+s.iovecs] {
			s.bytes += int(v.len)
		}
		if h.ctlLen > 0 {
			s.segment = int(binary.NativeEndian.Uint16(t.ctl[m].value[:]))
		}
		list = append(list, s)
	}
	return list
}

func TestPlan(t *testing.T) {
	d := open(t, Options{}, fabric.DomainConfig{Buffers: 4, BufferBytes: 9000})
	defer d.Close()
	var to [2]fabric.Addr
	for i := range to {
		name := inet.EncodeName(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(1000+i)))
		to[i], _ = d.Insert(name)
	}
	region, err := d.RegisterRegion(make([]byte, 5000))
	if err != nil {
		t.Fatal(err)
	}
	lens := func(sizes ...uint32) (sends []fabric.Send) {
		for _, n := range sizes {
			sends = append(sends, fabric.Send{To: to[0], Len: n})
		}
		return sends
	}
	same := func(count int, size uint32) []fabric.Send {
		return lens(slices.Repeat([]uint32{size}, count)...)
	}
	mixed := lens(100, 100, 100)
	mixed[1].To = to[1]
	gather := lens(10, 10, 10, 0)
	for i := range gather {
		gather[i].Region, gather[i].RegionOff, gather[i].RegionLen = region, uint64(i), 1000
	}
	gather[3].RegionLen = 1009
	bad := func(at int, change func(*fabric.Send)) []fabric.Send {
		sends := same(3, 50)
		change(&sends[at])
		return sends
	}
	for _, tc := range []struct {
		name  string
		sends []fabric.Send
		noGSO bool
		want  []shape
		taken int
		err   error
	}{
		{name: "nothing"},
		{name: "one", sends: lens(8), want: []shape{{1, 0, 1, 8}}, taken: 1},
		{name: "equal", sends: lens(8, 8, 8), want: []shape{{3, 8, 3, 24}}, taken: 3},
		{name: "last shorter", sends: lens(9, 9, 2), want: []shape{{3, 9, 3, 20}}, taken: 3},
		{name: "after the shorter", sends: lens(9, 2, 2, 9), want: []shape{
			{2, 9, 2, 11}, {1, 0, 1, 2}, {1, 0, 1, 9},
		}, taken: 4},
		{name: "growing", sends: lens(8, 9, 10), want: []shape{
			{1, 0, 1, 8}, {1, 0, 1, 9}, {1, 0, 1, 10},
		}, taken: 3},
		{name: "empty ones stay alone", sends: lens(0, 0, 5, 0), want: []shape{
			{1, 0, 1, 0}, {1, 0, 1, 0}, {1, 0, 1, 5}, {1, 0, 1, 0},
		}, taken: 4},
		{name: "other peer", sends: mixed, want: []shape{
			{1, 0, 1, 100}, {1, 0, 1, 100}, {1, 0, 1, 100},
		}, taken: 3},
		{name: "without segmentation", sends: lens(8, 8), noGSO: true, want: []shape{
			{1, 0, 1, 8}, {1, 0, 1, 8},
		}, taken: 2},
		{name: "128 at most", sends: same(130, 8), want: []shape{
			{128, 8, 128, 1024}, {2, 8, 2, 16},
		}, taken: 130},
		{name: "65493 bytes fit", sends: append(same(7, 9000), lens(2493)...), want: []shape{
			{8, 9000, 8, 65493},
		}, taken: 8},
		{name: "65494 bytes do not", sends: append(same(7, 9000), lens(2494)...), want: []shape{
			{7, 9000, 7, 63000}, {1, 0, 1, 2494},
		}, taken: 8},
		{name: "gather", sends: gather, want: []shape{{4, 1010, 7, 4039}}, taken: 4},
		{
			name: "32 messages at most", sends: same(40, 8), noGSO: true,
			want: slices.Repeat([]shape{{1, 0, 1, 8}}, 32), taken: 32,
		},
		{
			name: "bad buffer", sends: bad(1, func(s *fabric.Send) { s.Buf = 4 }),
			want: []shape{{1, 0, 1, 50}}, taken: 1, err: errBadBuf,
		},
		{
			name: "bad peer", sends: bad(2, func(s *fabric.Send) { s.To = to[1] + 1 }),
			want: []shape{{2, 50, 2, 100}}, taken: 2, err: errUnknownAddr,
		},
		{
			name: "bad region", sends: bad(0, func(s *fabric.Send) { s.Region = region + 1 }),
			err: errBadRegion,
		},
		{
			name: "too long", sends: bad(1, func(s *fabric.Send) { s.Len = 9001 }),
			want: []shape{{1, 0, 1, 50}}, taken: 1, err: errTooLong,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &endpoint{domain: d}
			tx := &e.tx
			tx.init(e, true)
			taken, err := tx.plan(tc.sends, !tc.noGSO)
			got := tx.shapes()
			if !slices.Equal(got, tc.want) || taken != tc.taken || !errors.Is(err, tc.err) {
				t.Errorf("plan: %v, %d taken, %v\nwant %v, %d, %v", got, taken, err, tc.want, tc.taken,
					tc.err)
			}
		})
	}
}

// A node or an address that cannot be read says what to write.
func TestUnreadableAddresses(t *testing.T) {
	d := &domain{local: inet.Local{Addr: netip.MustParseAddr("127.0.0.1")}}
	for _, tc := range []struct{ text, says string }{
		{"127.0.0.1:65535", "write both, as in 127.0.0.1:65535,65534"},
		{"127.0.0.1:70000", `"70000" is no port`},
		{"127.0.0.1:http", `"http" is no port`},
		{"127.0.0.1:4000,x", `"x" is no port`},
		{"127.0.0.1,4711", "write 127.0.0.1:4000,4711"},
		{"::1:4000:", "no port"},
		{"[::1:4000", "stands in brackets"},
	} {
		_, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: tc.text})
		if !errors.Is(err, fabric.ErrNoProvider) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("node %q: %v, want %q", tc.text, err, tc.says)
		}
		_, _, err = d.ParseAddress(tc.text)
		if !errors.Is(err, fabric.ErrBadName) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("address %q: %v, want %q", tc.text, err, tc.says)
		}
	}
	for _, tc := range []struct{ node, says string }{
		{"nosuch0:4000", "a device of this host"}, {"192.0.2.77", "a device of this host"},
	} {
		if _, err := fabric.GetInfo(fabric.Hints{Node: tc.node}); err == nil ||
			!strings.Contains(err.Error(), tc.says) {
			t.Errorf("node %q: %v, want %q", tc.node, err, tc.says)
		}
	}
	for _, text := range []string{
		"localhost:4000", ":4000", "0.0.0.0:4000", "127.0.0.1", "eth0:4000",
	} {
		if _, _, err := d.ParseAddress(text); !errors.Is(err, fabric.ErrBadName) {
			t.Errorf("address %q: %v", text, err)
		}
	}
}

func TestProviderNames(t *testing.T) {
	for name, want := range map[string]string{
		"udp": "udp", "udp/": "udp", "udp;nogso": "udp;nogso",
		"udp;nommsg;nogso": "udp;nogso;nommsg", "udp;": "", "udp;fast": "", "ofi/udp": "", "udpx": "",
	} {
		o, ok := Options{}.parseName(name)
		if ok != (want != "") || ok && o.name() != want {
			t.Errorf("%q: %v %q, want %q", name, ok, o.name(), want)
		}
	}
}

// TestOffloadRefused makes the kernel refuse segmentation while it takes the same datagrams singly:
// it does so for sockets that compute no checksums.
func TestOffloadRefused(t *testing.T) {
	cfg := fabric.DomainConfig{Buffers: 64, BufferBytes: 1472}
	p := newPair(t, Options{}, cfg, fabric.EndpointConfig{})
	if !p.a.tx.gso {
		testenv.Missing(t, "this kernel has no UDP_SEGMENT")
	}
	if err := unix.SetsockoptInt(p.a.sock.fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		sends := make([]fabric.Send, 5)
		for i := range sends {
			p.d.buffers.bytes(fabric.Buf(i))[0] = byte(10*round + i)
			sends[i] = fabric.Send{To: p.to, Buf: fabric.Buf(i), Len: 700}
		}
		if n, err := p.a.Post(sends); n != 5 || err != nil {
			t.Fatalf("Post: %d, %v", n, err)
		}
		p.stock(8, 8)
		for i, c := range p.collect(5) {
			if got := p.d.buffers.bytes(c.Buf)[0]; got != byte(10*round+i) || c.Len != 700 {
				t.Fatalf("datagram %d begins with %d and has %d bytes", i, got, c.Len)
			}
		}
		p.b.rx.top = 0
	}
	if p.a.tx.gso || p.a.counts.gsoSingly != 1 {
		t.Errorf("segmentation on: %v, runs sent singly: %d, want 1", p.a.tx.gso, p.a.counts.gsoSingly)
	}
	if got := p.d.Info().Attrs[0].Value; got == "on" {
		t.Errorf("Info says that gso is %q", got)
	}
}

// stock posts count receive buffers from first on.
func (p *pair) stock(first, count int) {
	p.tb.Helper()
	for i := range count {
		if _, err := p.b.Recv([]fabric.Buf{fabric.Buf(first + i)}); err != nil {
			p.tb.Fatal(err)
		}
	}
}

// collect polls count completions.
func (p *pair) collect(count int) []fabric.Completion {
	p.tb.Helper()
	list := make([]fabric.Completion, 0, count)
	for range 1 << 16 {
		n, err := p.b.Poll(list[len(list):count])
		if err != nil {
			p.tb.Fatal(err)
		}
		if list = list[:len(list)+n]; len(list) == count {
			return list
		}
	}
	p.tb.Fatalf("%d of %d datagrams arrived", len(list), count)
	return nil
}

// TestRowsFollowRuns: rows have about as many buffers as runs have datagrams, and a run that is
// longer than its row is whole.
func TestRowsFollowRuns(t *testing.T) {
	k := newBulk(t, Options{}, false)
	all := k.sends
	for i := range all {
		k.d.buffers.bytes(all[i].Buf)[0] = byte(i)
	}
	send := func(count int) {
		t.Helper()
		k.sends = all[:count]
		k.post()
		for got := 0; got < count; {
			n, err := k.b.Poll(k.out)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range k.out[:n] {
				if b := k.d.buffers.bytes(c.Buf); int(c.Len) != wireBytes || b[0] != byte(got) {
					t.Fatalf("datagram %d of %d: %d bytes of number %d", got, count, c.Len, b[0])
				}
				got++
				if _, err := k.b.Recv([]fabric.Buf{c.Buf}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	rx := &k.b.rx
	send(runLength) // the first run only shows the size
	if send(runLength); rx.wide != rx.widest() {
		t.Fatalf("rows of %d buffers for runs of %d", rx.wide, runLength)
	}
	for range 2 * learnRuns {
		send(6)
	}
	if rx.wide != 12 {
		t.Errorf("rows of %d buffers for runs of 6", rx.wide)
	}
	if send(runLength); rx.wide != rx.widest() {
		t.Errorf("rows of %d buffers after a run of %d", rx.wide, runLength)
	}
}

// TestBursts sends random bursts to a receiver with few buffers and small polls. Each datagram must
// arrive whole and in order.
func TestBursts(t *testing.T) {
	for _, o := range []Options{{}, {NoGSO: true}, {NoGRO: true}, {NoMmsg: true}} {
		for _, size := range []int{1472, 30000} {
			t.Run(fmt.Sprintf("%s/%d", o.name(), size), func(t *testing.T) { testBursts(t, o, size) })
		}
	}
}

func testBursts(t *testing.T, o Options, size int) {
	const count, rxBuffers = 64, 128
	cfg := fabric.DomainConfig{Buffers: count + rxBuffers, BufferBytes: size}
	p := newPair(t, o, cfg, fabric.EndpointConfig{})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	free := make([]fabric.Buf, rxBuffers)
	for i := range free {
		free[i] = fabric.Buf(count + i)
	}
	for round := range 200 {
		var want [][]byte
		var sends []fabric.Send
		base := 1 + rng.IntN(size)
		if round%2 == 0 {
			base = size
		}
		most := count
		if round/50%2 == 1 { // long enough for the receiver to get used to short runs
			most = 6
		}
		limit := min(1+rng.IntN(most), p.b.caps.RecvCapacity)
		for i := range limit {
			n := base
			if rng.IntN(20) == 0 || i == limit-1 {
				n = rng.IntN(base + 1)
			}
			data := p.d.buffers.bytes(fabric.Buf(i))[:n]
			for j := range data {
				data[j] = byte(j*7) ^ byte(j>>8) ^ byte(i*31+round)
			}
			want = append(want, bytes.Clone(data))
			sends = append(sends, fabric.Send{To: p.to, Buf: fabric.Buf(i), Len: uint32(n)})
		}
		if n, err := p.a.Post(sends); err != nil {
			t.Fatalf("Post: %d, %v", n, err)
		}
		for polls := 0; len(want) > 0; polls++ {
			if polls == 1<<16 {
				t.Fatalf("round %d: %d datagrams are missing", round, len(want))
			}
			if k := rng.IntN(len(free) + 1); rng.IntN(3) == 0 {
				if _, err := p.b.Recv(free[:k]); err != nil {
					t.Fatal(err)
				}
				free = free[k:]
			}
			var out [80]fabric.Completion
			n, err := p.b.Poll(out[:rng.IntN(len(out))])
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range out[:n] {
				if got := p.d.buffers.bytes(c.Buf)[:c.Len]; !bytes.Equal(got, want[0]) {
					t.Fatalf("round %d: got %d bytes, want %d", round, c.Len, len(want[0]))
				}
				want = want[1:]
				free = append(free, c.Buf)
			}
		}
	}
	t.Logf("%+v", p.b.counts)
}

func TestPeers(t *testing.T) {
	table := peerTable{byName: map[netip.AddrPort]uint32{}}
	name := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 7)
	}
	addrs := make([]fabric.Addr, 1000)
	for i := range addrs {
		a, err := table.insert(name(i), 0)
		if err != nil {
			t.Fatal(err)
		}
		addrs[i] = a
	}
	first := table.slot(addrs[0])
	for i, a := range addrs {
		if got := table.slot(a).sock.addrPort(); got != name(i) || table.find(name(i)) != a {
			t.Fatalf("Addr %x leads to %v, want %v", a, got, name(i))
		}
	}
	if !table.remove(addrs[0]) || table.remove(addrs[0]) || table.slot(addrs[0]) != nil {
		t.Error("a removed peer is still there")
	}
	again, _ := table.insert(name(5000), 0)
	if uint32(again) != uint32(addrs[0]) || again == addrs[0] || table.slot(again) != first {
		t.Errorf("the place of %x went to %x", addrs[0], again)
	}
	if table.slot(fabric.AddrUnknown) != nil || table.slot(0) != nil || table.slot(999999) != nil {
		t.Error("an Addr that was never given has a slot")
	}
}

// TestPendingErrors asks the kernel for ICMP errors, which it then reports to whichever call comes
// next: neither a send nor a receive may suffer from it.
func TestPendingErrors(t *testing.T) {
	cfg := fabric.DomainConfig{Buffers: 16, BufferBytes: 100}
	p := newPair(t, Options{}, cfg, fabric.EndpointConfig{})
	gone, err := p.d.OpenEndpoint(fabric.EndpointConfig{})
	if err != nil {
		t.Fatal(err)
	}
	nowhere, err := p.d.Insert(gone.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(p.a.sock.fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1); err != nil {
		t.Fatal(err)
	}
	lost := []fabric.Send{{To: nowhere, Buf: 0, Len: 8}}
	good := []fabric.Send{{To: p.to, Buf: 0, Len: 8}, {To: p.to, Buf: 1, Len: 9}}
	if _, err := p.a.Recv([]fabric.Buf{2}); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		before := p.a.counts.pending
		if n, err := p.a.Post(lost); n != 1 || err != nil {
			t.Fatalf("Post to nobody: %d, %v", n, err)
		}
		if i%2 == 0 {
			p.stock(8, 2)
			if n, err := p.a.Post(good); n != 2 || err != nil {
				t.Fatalf("Post after an ICMP error: %d, %v", n, err)
			}
			p.collect(2)
		} else {
			var out [1]fabric.Completion
			if n, err := p.a.Poll(out[:]); n != 0 || err != nil {
				t.Fatalf("Poll after an ICMP error: %d, %v", n, err)
			}
		}
		if p.a.counts.pending == before {
			t.Fatalf("round %d: the error was not seen", i)
		}
	}
	if p.a.counts.refused != 0 {
		t.Errorf("%d sends refused", p.a.counts.refused)
	}
}
