//go:build linux && cgo

package ofi

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

const patience = 5 * time.Second // after this time a datagram on the loopback device is lost

// open opens a domain on the loopback device. If the provider is missing, the test fails in CI and
// is skipped elsewhere.
func open(tb testing.TB, name string, cfg fabric.DomainConfig) fabric.Domain {
	tb.Helper()
	d, err := fabric.Open(fabric.Info{Provider: name, Node: "127.0.0.1"}, cfg)
	if err != nil && os.Getenv("CI") == "" && errors.Is(err, fabric.ErrNoProvider) {
		tb.Skipf("libfabric without provider %s: %v", name, err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return d
}

func openEndpoint(tb testing.TB, d fabric.Domain, cfg fabric.EndpointConfig) fabric.Endpoint {
	tb.Helper()
	e, err := d.OpenEndpoint(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func insert(tb testing.TB, d fabric.Domain, name []byte) fabric.Addr {
	tb.Helper()
	a, err := d.Insert(name)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// poll waits for one completion.
func poll(tb testing.TB, e fabric.Endpoint) fabric.Completion {
	tb.Helper()
	var out [1]fabric.Completion
	for end := time.Now().Add(patience); time.Now().Before(end); {
		n, err := e.Poll(out[:])
		if err != nil {
			tb.Fatal(err)
		}
		if n > 0 {
			return out[0]
		}
	}
	tb.Fatalf("no completion within %v", patience)
	return fabric.Completion{}
}

func mustPost(tb testing.TB, e fabric.Endpoint, s ...fabric.Send) {
	tb.Helper()
	if n, err := e.Post(s); n != len(s) || err != nil {
		tb.Fatalf("Post of %d took %d, %v", len(s), n, err)
	}
}

func mustRecv(tb testing.TB, e fabric.Endpoint, bufs ...fabric.Buf) {
	tb.Helper()
	if n, err := e.Recv(bufs); n != len(bufs) || err != nil {
		tb.Fatalf("Recv of %d took %d, %v", len(bufs), n, err)
	}
}

func seqBufs(first fabric.Buf, n int) []fabric.Buf {
	bufs := make([]fabric.Buf, n)
	for i := range bufs {
		bufs[i] = first + fabric.Buf(i)
	}
	return bufs
}

// drain polls until no more completions come.
func drain(tb testing.TB, e fabric.Endpoint, most int) []fabric.Completion {
	tb.Helper()
	var all []fabric.Completion
	out := make([]fabric.Completion, 64)
	for len(all) < most {
		n, err := e.Poll(out[:min(len(out), most-len(all))])
		if err != nil {
			tb.Fatal(err)
		}
		if n == 0 {
			break
		}
		all = append(all, out[:n]...)
	}
	return all
}

// TestRecvCapacity leaves as many datagrams unread as the endpoint promises, with buffers of
// several sizes. The test then reads a part, lets as many datagrams follow, and reads all
// datagrams. No datagram may be lost. Linux counts datagrams for some time after they were read,
// and therefore a capacity of the whole buffer would lose some.
func TestRecvCapacity(t *testing.T) {
	for _, ask := range []int{-1, 106496, 1 << 19} {
		d := open(t, "ofi/udp", fabric.DomainConfig{Buffers: 1100})
		to := openEndpoint(t, d, fabric.EndpointConfig{RecvBufferBytes: ask})
		from := openEndpoint(t, d, fabric.EndpointConfig{})
		capacity := to.Caps().RecvCapacity
		if got := to.Caps().RecvBufferBytes; ask == 106496 && (got != 212992 || capacity != 69) {
			t.Errorf("a socket of 208 KiB has %d bytes and capacity %d", got, capacity)
		}
		if capacity > 1000 {
			t.Skipf("the system's sockets hold more than fits this test: %d", capacity)
		}
		s := fabric.Send{To: insert(t, d, to.Name()), Buf: 1099, Len: uint32(to.Caps().MTUBytes)}
		burst := func(n int) {
			for range n {
				mustPost(t, from, s)
			}
		}
		mustRecv(t, to, seqBufs(0, capacity)...)
		for part := 0; part <= capacity; part += max(capacity/16, 1) {
			burst(capacity)
			got := drain(t, to, part)
			for _, c := range got {
				mustRecv(t, to, c.Buf)
			}
			burst(len(got))
			rest := drain(t, to, capacity+1)
			if len(got) != part || len(rest) != capacity {
				t.Fatalf("buffer of %d: of %d datagrams %d were read, then %d of %d",
					to.Caps().RecvBufferBytes, capacity, len(got), len(rest), capacity)
			}
			for _, c := range rest {
				mustRecv(t, to, c.Buf)
			}
		}
	}
}

// TestTruncation checks that Len shows a truncated datagram, though the provider reports no error.
func TestTruncation(t *testing.T) {
	d := open(t, "ofi/udp", fabric.DomainConfig{Buffers: 4, BufferBytes: 100})
	e := openEndpoint(t, d, fabric.EndpointConfig{})
	region, err := d.RegisterRegion(bytes.Repeat([]byte{7}, 1000))
	if err != nil {
		t.Fatal(err)
	}
	arena := d.Arena()
	for b := range fabric.Buf(4) {
		fill(arena.Bytes(b), byte(b))
	}
	s := fabric.Send{To: insert(t, d, e.Name()), Buf: 0, Region: region}
	for tail, want := range map[uint32]uint32{99: 99, 100: 100, 101: 101, 1000: 101} {
		mustRecv(t, e, 2)
		s.RegionLen = tail
		mustPost(t, e, s)
		if c := poll(t, e); c.Len != want || c.Buf != 2 {
			t.Errorf("datagram of %d bytes: Len %d, Buf %d; want %d, 2", tail, c.Len, c.Buf, want)
		}
		if arena.Bytes(1)[99] != 1 || arena.Bytes(3)[0] != 3 {
			t.Errorf("datagram of %d bytes wrote into a neighbour", tail)
		}
	}
}

func TestErrorText(t *testing.T) {
	d := open(t, "ofi/udp", fabric.DomainConfig{Buffers: 4})
	e := openEndpoint(t, d, fabric.EndpointConfig{})
	// The socket is bound to the loopback address, and the kernel refuses other destinations.
	away := insert(t, d, sockIn("192.0.2.77", 9))
	_, err := e.Post([]fabric.Send{{To: away, Len: 8}})
	var fe *fabric.Error
	if !errors.As(err, &fe) || !errors.Is(err, syscall.EINVAL) {
		t.Fatalf("Post to an unreachable peer: %v, want a *fabric.Error with EINVAL", err)
	}
	const want = "ofi/udp: fi_inject: Invalid argument (errno 22)"
	if err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
	if got := newError("ofi/udp", "fi_cq_read", 265, strerror); got.Text != "Truncation error" ||
		got.Errno != 265 {
		t.Errorf("libfabric's own error 265 became %v", got)
	}
	for i, r := range refusals {
		if got := newError("p", "x", codeBase+i, strerror); got.Op != r.op || got.Text != r.text {
			t.Errorf("code %d became %v", i, got)
		}
	}
}

// TestForeignNode binds an address that this host does not have. The error must have a type, and
// nothing may stay open.
func TestForeignNode(t *testing.T) {
	info := fabric.Info{Provider: "ofi/udp", Node: "198.51.100.7"}
	d, err := fabric.Open(info, fabric.DomainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before := openFiles(t)
	_, err = d.OpenEndpoint(fabric.EndpointConfig{})
	if !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("OpenEndpoint: %v, want EADDRNOTAVAIL", err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("the failed OpenEndpoint left %d descriptors open", after-before)
	}
}

func openFiles(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

// mapped returns the size of the process's address space in bytes.
func mapped(tb testing.TB) int {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		tb.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		tb.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// leakBytes is half of the size of 20 arenas of 64 MiB. The Go runtime and malloc map less memory
// in a small test.
const leakBytes = 10 * 64 << 20

func TestNoLeaks(t *testing.T) {
	for _, prov := range []string{"ofi/udp", offloadName, "ofi/sockets", "ofi/shm"} {
		cycle := func() {
			d, err := fabric.Open(fabric.Info{Provider: prov, Node: "127.0.0.1"},
				fabric.DomainConfig{Buffers: 1024, BufferBytes: 1 << 16})
			if err != nil {
				t.Fatal(err)
			}
			e := openEndpoint(t, d, fabric.EndpointConfig{})
			openEndpoint(t, d, fabric.EndpointConfig{Source: true})
			mustRecv(t, e, 0, 1)
			send := []fabric.Send{{To: insert(t, d, e.Name()), Buf: 3, Len: 9}}
			if _, err := e.Post(send); err != nil && !errors.Is(err, fabric.ErrAgain) {
				t.Fatal(err) // shm has not connected to itself yet
			}
			if _, err := d.RegisterRegion(make([]byte, 1<<16)); err != nil {
				t.Fatal(err)
			}
			if _, err := d.OpenEndpoint(fabric.EndpointConfig{TxDepth: -1}); err == nil {
				t.Fatal("a negative depth was taken")
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		cycle() // memory that libfabric keeps for ever
		files, mem := openFiles(t), mapped(t)
		for range 20 {
			cycle()
		}
		if now := openFiles(t); now != files {
			t.Errorf("%s: %d descriptors before, %d after 20 cycles", prov, files, now)
		}
		if now := mapped(t); now-mem > leakBytes {
			t.Errorf("%s: %d bytes mapped before, %d after 20 cycles", prov, mem, now)
		}
	}
}

// TestStaleHandles checks that a removed handle stays invalid after its place was reused.
func TestStaleHandles(t *testing.T) {
	d := open(t, "ofi/udp", fabric.DomainConfig{Buffers: 4})
	e := openEndpoint(t, d, fabric.EndpointConfig{Source: true})
	old := insert(t, d, sockIn("127.0.0.1", 1))
	if err := d.Remove(old); err != nil {
		t.Fatal(err)
	}
	self := insert(t, d, e.Name())
	if uint32(self) != uint32(old) || self == old {
		t.Fatalf("the new peer is %x after %x: want the same place, another generation", self, old)
	}
	mem := make([]byte, 64)
	oldRegion, err := d.RegisterRegion(mem)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.DeregisterRegion(oldRegion); err != nil {
		t.Fatal(err)
	}
	region, err := d.RegisterRegion(mem)
	if err != nil {
		t.Fatal(err)
	}
	mustRecv(t, e, 1)
	for _, tt := range []struct {
		what string
		s    fabric.Send
		want syscall.Errno
	}{
		{"stale peer", fabric.Send{To: old, Len: 1}, syscall.EINVAL},
		{"no peer", fabric.Send{To: 0, Len: 1}, syscall.EINVAL},
		{"unknown peer", fabric.Send{To: fabric.AddrUnknown, Len: 1}, syscall.EINVAL},
		{"far peer", fabric.Send{To: self + 1<<20, Len: 1}, syscall.EINVAL},
		{"no buffer", fabric.Send{To: self, Buf: 4, Len: 1}, syscall.EINVAL},
		{"last buffer", fabric.Send{To: self, Buf: 1<<32 - 1, Len: 1}, syscall.EINVAL},
		{"posted buffer", fabric.Send{To: self, Buf: 1, Len: 1}, syscall.EBUSY},
		{"long", fabric.Send{To: self, Len: 1473}, syscall.EMSGSIZE},
		{
			"longest",
			fabric.Send{To: self, Len: 1<<32 - 1, Region: region, RegionLen: 1},
			syscall.EMSGSIZE,
		},
		{
			"long together",
			fabric.Send{To: self, Len: 1450, Region: region, RegionLen: 23},
			syscall.EMSGSIZE,
		},
		{"stale region", fabric.Send{To: self, Region: oldRegion, RegionLen: 1}, syscall.EINVAL},
		{"no region", fabric.Send{To: self, Region: 1<<32 - 1, RegionLen: 1}, syscall.EINVAL},
		{
			"after region",
			fabric.Send{To: self, Region: region, RegionOff: 1, RegionLen: 64},
			syscall.EINVAL,
		},
		{
			"far after region",
			fabric.Send{To: self, Region: region, RegionOff: 1<<64 - 1, RegionLen: 1},
			syscall.EINVAL,
		},
	} {
		good := fabric.Send{To: self, Len: 3}
		n, err := e.Post([]fabric.Send{good, tt.s, good})
		if n != 1 || !errors.Is(err, tt.want) {
			t.Errorf("%s: Post took %d, %v; want 1, %v", tt.what, n, err, tt.want)
		}
		if c := poll(t, e); c.From != self || c.Len != 3 {
			t.Errorf("%s: the good send before it arrived as %+v", tt.what, c)
		}
		mustRecv(t, e, 1)
	}
	for what, err := range map[string]error{
		"Remove(stale)":       d.Remove(old),
		"Remove(unknown)":     d.Remove(fabric.AddrUnknown),
		"Deregister(stale)":   d.DeregisterRegion(oldRegion),
		"Deregister(0)":       d.DeregisterRegion(0),
		"Deregister(unknown)": d.DeregisterRegion(1<<32 - 1),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s = %v, want EINVAL", what, err)
		}
	}
}

// TestManyPeers uses the table from libfabric's addresses to Addrs with many peers and removals.
func TestManyPeers(t *testing.T) {
	d := open(t, "ofi/udp", fabric.DomainConfig{Buffers: 64})
	const others = 3000
	var addrs []fabric.Addr
	for i := range others {
		addrs = append(addrs, insert(t, d, sockIn("127.0.0.2", uint16(1000+i))))
	}
	var ends []fabric.Endpoint
	var self []fabric.Addr
	for range 8 {
		e := openEndpoint(t, d, fabric.EndpointConfig{Source: true})
		ends = append(ends, e)
		self = append(self, insert(t, d, e.Name()))
	}
	for i, a := range addrs {
		if i%3 == 0 {
			continue
		}
		if err := d.Remove(a); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range ends {
		mustRecv(t, ends[0], fabric.Buf(i))
		mustPost(t, e, fabric.Send{To: self[0], Buf: 63, Len: 4})
		if c := poll(t, ends[0]); c.From != self[i] {
			t.Errorf("datagram of endpoint %d came from %x, want %x", i, c.From, self[i])
		}
	}
	if err := d.Remove(self[1]); err != nil {
		t.Fatal(err)
	}
	mustRecv(t, ends[0], 1)
	mustPost(t, ends[1], fabric.Send{To: self[0], Buf: 63, Len: 4})
	if c := poll(t, ends[0]); c.From != fabric.AddrUnknown {
		t.Errorf("datagram of a removed peer came from %x", c.From)
	}
}

// TestWakeAfterClose calls Wake while the domain closes and while the numbers of its descriptors
// are reused. A pipe with a reused number must stay empty.
func TestWakeAfterClose(t *testing.T) {
	for range 20 {
		d := open(t, "ofi/udp", fabric.DomainConfig{Buffers: 2})
		w := d.(fabric.Waiter)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 200 {
					w.Wake()
				}
			})
		}
		d.Close()
		var fds []int
		for range 8 {
			fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			fds = append(fds, fd)
		}
		wg.Wait()
		w.Wake()
		for _, fd := range fds {
			var count [8]byte
			if n, err := unix.Read(fd, count[:]); err != unix.EAGAIN {
				t.Errorf("a descriptor of somebody else was written: %d, %v", n, err)
			}
			unix.Close(fd)
		}
		if err := w.Wait(-1); !errors.Is(err, fabric.ErrClosed) {
			t.Errorf("Wait after Close: %v", err)
		}
	}
}

func TestGetInfo(t *testing.T) {
	all, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/"})
	if err != nil {
		t.Fatal(err)
	}
	last, reliable := 0, false
	for _, info := range all {
		if info.MTUBytes < 1 || info.Version == "" || info.Domain == "" || len(info.Attrs) == 0 {
			t.Errorf("incomplete info %+v", info)
		}
		if !info.Reliable && (strings.Contains(info.Provider, ";") || info.Ordered || reliable) {
			t.Errorf("%s is not a bare datagram provider, or comes after a reliable one", info.Provider)
		}
		if info.Reliable && !reliable {
			last, reliable = 0, true
		}
		if r := rank(info)*10 + reach(info); r < last {
			t.Errorf("%s on %s comes after something worse", info.Provider, info.Src)
		} else {
			last = r
		}
	}
	for _, tt := range []struct {
		h    fabric.Hints
		want bool
	}{
		{fabric.Hints{Provider: "ofi/udp"}, true},
		{fabric.Hints{Provider: "ofi/UDP", Node: "127.0.0.1"}, true},
		{fabric.Hints{Provider: "ofi/udp", Domain: "lo"}, true},
		{fabric.Hints{Provider: "ofi/udp", Node: "::1"}, true},
		{fabric.Hints{Provider: "ofi/udp", Domain: "nosuchdevice"}, false},
		{fabric.Hints{Provider: "ofi/udp;ofi_rxd"}, true},
		{fabric.Hints{Provider: "ofi/udp+offload", Node: "127.0.0.1"}, true},
		{fabric.Hints{Provider: "ofi/sockets+offload"}, false},
		{fabric.Hints{Provider: "ofi/udp+"}, false},
		{fabric.Hints{Provider: "ofi/+rdm"}, false},
		{fabric.Hints{Provider: "ofi/shm", Node: "127.0.0.1"}, true},
		{fabric.Hints{Provider: "ofi/tcp"}, true},
		{fabric.Hints{Provider: "ofi/sockets+rdm"}, true},
		{fabric.Hints{Provider: "ofi/udp\x00"}, false},
		{fabric.Hints{Provider: "ofi/nosuch"}, false},
		{fabric.Hints{Provider: "udp"}, false},
	} {
		infos, err := provider{}.GetInfo(tt.h)
		if err != nil || (len(infos) > 0) != tt.want {
			t.Errorf("GetInfo(%+v) = %d infos, %v; want some: %v", tt.h, len(infos), err, tt.want)
		}
		for _, info := range infos {
			if info.Node != tt.h.Node || tt.h.Domain != "" && info.Domain != tt.h.Domain {
				t.Errorf("GetInfo(%+v) gave %+v", tt.h, info)
			}
		}
	}
	for _, bad := range []fabric.Info{
		{Provider: "ofi"},
		{Provider: "ofi/"},
		{Provider: "ofi/nosuch"},
		{Provider: "ofi/udp", Domain: "nosuch"},
		{Provider: "ofi/sockets+offload"},
		{Provider: "ofi/shm+offload"},
		{Provider: "ofi/+rdm"},
		{Provider: "ofi/udp", Src: "203.0.113.1"},
	} {
		if _, err := fabric.Open(bad, fabric.DomainConfig{}); !errors.Is(err, fabric.ErrNoProvider) {
			t.Errorf("Open(%+v) = %v, want ErrNoProvider", bad, err)
		}
	}
}

// TestIPv6 runs a datagram over ::1, and over a link-local address if the host has one.
func TestIPv6(t *testing.T) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/udp"})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, info := range infos {
		if info.AddrFormat != "FI_SOCKADDR_IN6" {
			continue
		}
		tried++
		d, err := fabric.Open(info, fabric.DomainConfig{Buffers: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		e := openEndpoint(t, d, fabric.EndpointConfig{Source: true})
		self := insert(t, d, e.Name())
		mustRecv(t, e, 1)
		mustPost(t, e, fabric.Send{To: self, Len: 8})
		if c := poll(t, e); c.From != self || c.Len != 8 {
			t.Errorf("over %s came %+v, want 8 bytes from %x", info.Src, c, self)
		}
		if e.Caps().RecvBufferBytes == 0 {
			t.Errorf("over %s the socket was not found", info.Src)
		}
	}
	t.Logf("%d addresses", tried)
}
