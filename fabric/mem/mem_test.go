package mem_test

import (
	"errors"
	"syscall"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// rig is a domain with two endpoints that have inserted each other's names.
type rig struct {
	t      *testing.T
	nw     *mem.Network
	dom    fabric.Domain
	arena  fabric.Arena
	a, b   fabric.Endpoint
	toA    fabric.Addr
	toB    fabric.Addr
	outbox [64]fabric.Completion
}

func newRig(t *testing.T, cfg mem.Config) *rig {
	t.Helper()
	r := &rig{t: t, nw: mem.New(cfg)}
	var err error
	if r.dom, err = r.nw.Open(fabric.DomainConfig{Buffers: 64}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.dom.Close() })
	r.arena = r.dom.Arena()
	r.a = r.open(fabric.EndpointConfig{Source: true})
	r.b = r.open(fabric.EndpointConfig{Source: true})
	r.toA, r.toB = r.insert(r.a.Name()), r.insert(r.b.Name())
	return r
}

func (r *rig) open(cfg fabric.EndpointConfig) fabric.Endpoint {
	r.t.Helper()
	e, err := r.dom.OpenEndpoint(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func (r *rig) insert(name []byte) fabric.Addr {
	r.t.Helper()
	a, err := r.dom.Insert(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// send posts text from a to b out of buffer 0.
func (r *rig) send(text string) {
	r.t.Helper()
	n := copy(r.arena.Bytes(0), text)
	if _, err := r.a.Post([]fabric.Send{{To: r.toB, Buf: 0, Len: uint32(n)}}); err != nil {
		r.t.Fatal(err)
	}
}

// texts polls e and returns the datagrams that arrived.
func (r *rig) texts(e fabric.Endpoint) []string {
	r.t.Helper()
	n, err := e.Poll(r.outbox[:])
	if err != nil {
		r.t.Fatal(err)
	}
	var got []string
	for _, c := range r.outbox[:n] {
		if c.Op == fabric.OpRecv {
			got = append(got, string(r.arena.Bytes(c.Buf)[:c.Len]))
		}
	}
	return got
}

func (r *rig) recv(e fabric.Endpoint, bufs ...fabric.Buf) {
	r.t.Helper()
	if _, err := e.Recv(bufs); err != nil {
		r.t.Fatal(err)
	}
}

func wantTexts(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("received %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("received %q, want %q", got, want)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  mem.Config
		ok   bool
	}{
		{"zero", mem.Config{}, true},
		{"smallest", mem.Config{MTUBytes: 1, TxDepth: 1, RxDepth: 1, QueueDatagrams: 1}, true},
		{"no inject", mem.Config{InjectBytes: -1}, true},
		{"all inject", mem.Config{MTUBytes: 9000, InjectBytes: 9000}, true},
		{"MTU negative", mem.Config{MTUBytes: -1}, false},
		{"MTU huge", mem.Config{MTUBytes: 1<<20 + 1}, false},
		{"inject above MTU", mem.Config{MTUBytes: 100, InjectBytes: 101}, false},
		{"tx depth", mem.Config{TxDepth: -1}, false},
		{"rx depth", mem.Config{RxDepth: 1<<20 + 1}, false},
		{"queue", mem.Config{QueueDatagrams: -5}, false},
		{"queue memory", mem.Config{MTUBytes: 1 << 20, QueueDatagrams: 1 << 20}, false},
	} {
		err := tc.cfg.Validate()
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, fabric.ErrBadConfig) {
			t.Errorf("%s: %v, want ok %v", tc.name, err, tc.ok)
		}
		nw := mem.New(tc.cfg)
		_, openErr := nw.Open(fabric.DomainConfig{Buffers: 1})
		_, infoErr := nw.Provider().GetInfo(fabric.Hints{})
		if (openErr == nil) != tc.ok || (infoErr == nil) != tc.ok {
			t.Errorf("%s: Open %v, GetInfo %v, want ok %v", tc.name, openErr, infoErr, tc.ok)
		}
	}
}

func TestDomainConfig(t *testing.T) {
	nw := mem.New(mem.Config{})
	for _, cfg := range []fabric.DomainConfig{
		{Buffers: -1},
		{BufferBytes: -1},
		{Buffers: 1<<24 + 1},
		{BufferBytes: 1<<24 + 1},
		{Buffers: 1 << 24, BufferBytes: 1 << 24},
	} {
		if _, err := nw.Open(cfg); !errors.Is(err, fabric.ErrBadConfig) {
			t.Errorf("Open(%+v): %v, want ErrBadConfig", cfg, err)
		}
	}
	d, err := nw.Open(fabric.DomainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	arena := d.Arena()
	if arena.Len() != 4096 || arena.Size() != 1472 {
		t.Errorf("default arena is %d x %d bytes, want 4096 x 1472", arena.Len(), arena.Size())
	}
	for _, cfg := range []fabric.EndpointConfig{{TxDepth: -1}, {RxDepth: 1<<20 + 1}} {
		if _, err := d.OpenEndpoint(cfg); !errors.Is(err, fabric.ErrBadConfig) {
			t.Errorf("OpenEndpoint(%+v): %v, want ErrBadConfig", cfg, err)
		}
	}
}

func TestRegisteredProvider(t *testing.T) {
	for _, tc := range []struct {
		hints fabric.Hints
		want  int
	}{
		{fabric.Hints{}, 1},
		{fabric.Hints{Provider: "mem/"}, 1},
		{fabric.Hints{Provider: "mem/local", Domain: "local", Node: "local"}, 1},
		{fabric.Hints{Provider: "mem/other"}, 0},
		{fabric.Hints{Domain: "eth0"}, 0},
		{fabric.Hints{Node: "127.0.0.1"}, 0},
	} {
		infos, err := fabric.GetInfo(tc.hints)
		if len(infos) != tc.want || tc.want == 0 && !errors.Is(err, fabric.ErrNoProvider) {
			t.Errorf("GetInfo(%+v): %d infos and %v, want %d", tc.hints, len(infos), err, tc.want)
			continue
		}
		if tc.want == 0 {
			continue
		}
		d, err := fabric.Open(infos[0], fabric.DomainConfig{Buffers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Info(); got.Provider != mem.ProviderName || got.MTUBytes != 1472 {
			t.Errorf("domain's Info is %+v", got)
		}
		d.Close()
	}
	if _, err := fabric.Open(fabric.Info{Provider: "mem/x"}, fabric.DomainConfig{}); !errors.Is(err,
		fabric.ErrNoProvider) {
		t.Errorf("opening mem/x: %v, want ErrNoProvider", err)
	}
}

func TestNamesAreTheSameInEveryRun(t *testing.T) {
	for range 2 {
		r := newRig(t, mem.Config{})
		if string(r.a.Name()) != "mem:\x00\x00\x00\x01" || string(r.b.Name()) != "mem:\x00\x00\x00\x02" {
			t.Fatalf("names %q and %q", r.a.Name(), r.b.Name())
		}
	}
}

// TestInsertUnknownNumbers checks that a name that was never given out is malformed, and that the
// name of a closed endpoint is accepted.
func TestInsertUnknownNumbers(t *testing.T) {
	r := newRig(t, mem.Config{})
	for _, number := range []string{"\x00\x00\x00\x00", "\x00\x00\x00\x03", "\xff\xff\xff\xff"} {
		name := "mem:" + number
		if _, err := r.dom.Insert([]byte(name)); !errors.Is(err, fabric.ErrBadName) {
			t.Errorf("Insert(%q): %v, want ErrBadName", name, err)
		}
	}
	gone := r.open(fabric.EndpointConfig{})
	name := gone.Name()
	gone.Close()
	to := r.insert(name)
	if n, err := r.a.Post([]fabric.Send{{To: to, Buf: 1, Len: 8}}); n != 1 || err != nil {
		t.Errorf("sending to a closed endpoint: %d, %v", n, err)
	}
	if got := r.nw.Counts(); got.Unreachable != 1 || got.Delivered != 0 {
		t.Errorf("counts %+v, want 1 unreachable", got)
	}
}

func TestFilterVerdicts(t *testing.T) {
	r := newRig(t, mem.Config{})
	r.recv(r.b, 10, 11, 12, 13, 14)
	next := mem.Deliver
	r.nw.SetFilter(func(from, to, pkt []byte) mem.Verdict {
		if string(from) != string(r.a.Name()) || string(to) != string(r.b.Name()) {
			t.Errorf("filter got names %q and %q", from, to)
		}
		return next
	})
	for _, step := range []struct {
		verdict mem.Verdict
		text    string
	}{
		{mem.Hold, "held 1"},
		{mem.Deliver, "plain"},
		{mem.Drop, "lost"},
		{mem.Duplicate, "twice"},
		{mem.Verdict(99), "lost too"},
		{mem.Hold, "held 2"},
	} {
		next = step.verdict
		r.send(step.text)
	}
	wantTexts(t, r.texts(r.b), "plain", "twice", "twice")
	if got := r.nw.Held(); got != 2 {
		t.Errorf("%d held, want 2", got)
	}
	r.nw.SetFilter(nil)
	if got := r.nw.Release(); got != 2 {
		t.Errorf("%d released, want 2", got)
	}
	wantTexts(t, r.texts(r.b), "held 1", "held 2")
	want := mem.Counts{Sent: 6, Delivered: 5, Filtered: 2, Duplicated: 1}
	if got := r.nw.Counts(); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

// TestFilterCorrupts checks that the receiver gets the filter's changed copy, and that the sender's
// buffer is unchanged.
func TestFilterCorrupts(t *testing.T) {
	r := newRig(t, mem.Config{})
	r.recv(r.b, 10)
	r.nw.SetFilter(func(_, _, pkt []byte) mem.Verdict { pkt[0] ^= 0x20; return mem.Deliver })
	r.send("hello")
	wantTexts(t, r.texts(r.b), "Hello")
	if got := string(r.arena.Bytes(0)[:5]); got != "hello" {
		t.Errorf("sender's buffer is %q now", got)
	}
}

func TestHeldForClosedEndpoint(t *testing.T) {
	r := newRig(t, mem.Config{})
	r.nw.SetFilter(func(_, _, _ []byte) mem.Verdict { return mem.Hold })
	r.send("too late")
	r.b.Close()
	r.nw.Release()
	if got := r.nw.Counts(); got.Unreachable != 1 {
		t.Errorf("counts %+v, want 1 unreachable", got)
	}
}

func TestQueueOverflowDropsTheNewest(t *testing.T) {
	r := newRig(t, mem.Config{QueueDatagrams: 2})
	for _, text := range []string{"one", "two", "three"} {
		r.send(text)
	}
	r.recv(r.b, 10, 11, 12)
	wantTexts(t, r.texts(r.b), "one", "two")
	if got := r.nw.Counts(); got.Overflowed != 1 || got.Delivered != 2 {
		t.Errorf("counts %+v, want 2 delivered and 1 overflowed", got)
	}
}

// TestStrictness checks that misuse that would corrupt data on hardware is an error.
func TestStrictness(t *testing.T) {
	r := newRig(t, mem.Config{InjectBytes: -1})
	other, err := r.nw.Open(fabric.DomainConfig{Buffers: 1})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Insert(r.b.Name())
	if err != nil {
		t.Fatal(err)
	}
	r.recv(r.b, 20)
	removed := r.insert(r.open(fabric.EndpointConfig{}).Name())
	if err := r.dom.Remove(removed); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		send  fabric.Send
		errno syscall.Errno
	}{
		{"posted for receiving", fabric.Send{To: r.toB, Buf: 20, Len: 1}, syscall.EBUSY},
		{"outside the arena", fabric.Send{To: r.toB, Buf: 64, Len: 1}, syscall.EINVAL},
		{"another domain's Addr", fabric.Send{To: foreign, Buf: 1, Len: 1}, syscall.EINVAL},
		{"zero Addr", fabric.Send{Buf: 1, Len: 1}, syscall.EINVAL},
		{"AddrUnknown", fabric.Send{To: fabric.AddrUnknown, Buf: 1, Len: 1}, syscall.EINVAL},
		{"removed", fabric.Send{To: removed, Buf: 1, Len: 1}, syscall.EINVAL},
		{"larger than the buffer", fabric.Send{To: r.toB, Buf: 1, Len: 1473}, syscall.EMSGSIZE},
	} {
		if n, err := r.a.Post([]fabric.Send{tc.send}); n != 0 || !errors.Is(err, tc.errno) {
			t.Errorf("%s: %d, %v, want %v", tc.name, n, err, tc.errno)
		}
	}
	if _, err := r.a.Recv([]fabric.Buf{20}); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("posting a receive buffer twice: %v", err)
	}
	r.send("in flight")
	if _, err := r.a.Recv([]fabric.Buf{0}); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("receiving into a send in flight: %v", err)
	}
	r.texts(r.a) // polls the completion
	if _, err := r.a.Recv([]fabric.Buf{0}); err != nil {
		t.Errorf("receiving into a completed send: %v", err)
	}
}

// TestCloseReturnsBuffers checks that closing an endpoint returns its buffers, although the buffers
// do not complete.
func TestCloseReturnsBuffers(t *testing.T) {
	r := newRig(t, mem.Config{InjectBytes: -1})
	r.recv(r.a, 30)
	r.send("not polled")
	r.a.Close()
	r.recv(r.b, 30, 0)
	wantTexts(t, r.texts(r.b), "not polled")
}

func TestNoGather(t *testing.T) {
	r := newRig(t, mem.Config{NoGather: true})
	if r.a.Caps().Gather {
		t.Error("Caps.Gather is true")
	}
	if _, err := r.dom.RegisterRegion(make([]byte, 8)); !errors.Is(err, fabric.ErrNotSupported) {
		t.Errorf("RegisterRegion: %v, want ErrNotSupported", err)
	}
	_, err := r.a.Post([]fabric.Send{{To: r.toB, Len: 1, Region: 1, RegionLen: 1}})
	if !errors.Is(err, fabric.ErrNotSupported) {
		t.Errorf("Post with a region: %v, want ErrNotSupported", err)
	}
}

func TestRegionHandlesAreReused(t *testing.T) {
	r := newRig(t, mem.Config{})
	first, err := r.dom.RegisterRegion(make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.dom.DeregisterRegion(first); err != nil {
		t.Fatal(err)
	}
	if err := r.dom.DeregisterRegion(first); err == nil {
		t.Error("deregistering twice succeeds")
	}
	second, err := r.dom.RegisterRegion(make([]byte, 8))
	if err != nil || second != first {
		t.Errorf("registered %d, then %d, %v", first, second, err)
	}
	if _, err := r.dom.RegisterRegion(nil); !errors.Is(err, fabric.ErrBadConfig) {
		t.Errorf("registering nothing: %v, want ErrBadConfig", err)
	}
}
