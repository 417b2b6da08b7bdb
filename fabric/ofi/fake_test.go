//go:build linux && cgo

package ofi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/fabric"
	"gobtl/internal/testenv"
)

// TestMain builds the provider of testdata/fakeprov and makes libfabric load the provider, because
// libfabric searches for providers only once in a process. The fake provider behaves like hardware.
// It has prefixes, memory registration, contexts, pointers as addresses, late completions, and
// queues without a descriptor.
func TestMain(m *testing.M) {
	if prov, ok := os.LookupEnv(childVariable); ok {
		child(prov)
		return
	}
	testenv.HearSignals()
	dir, err := os.MkdirTemp("", "fakeprov")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	// The flags are those with which this package was built, in case libfabric is not the system's
	// library.
	args := append([]string{"-std=gnu11"}, strings.Fields(os.Getenv("CGO_CFLAGS"))...)
	args = append(args, "-O1", "-shared", "-fPIC", "-o", filepath.Join(dir, "libgofake-fi.so"),
		"testdata/fakeprov/fake.c")
	args = append(args, strings.Fields(os.Getenv("CGO_LDFLAGS"))...)
	cmd := exec.Command(cc, append(args, "-lfabric")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the fake provider: %v\n%s", err, out)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	os.Setenv("FI_PROVIDER_PATH", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func openFake(tb testing.TB, device string, cfg fabric.DomainConfig) fabric.Domain {
	tb.Helper()
	d, err := fabric.Open(fabric.Info{Provider: "ofi/gofake", Domain: device}, cfg)
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

// fakeName is the name of the fake provider's endpoint with the given number.
func fakeName(device string, id uint16) []byte {
	if device == "nic" {
		return sockIn("127.0.0.1", id)
	}
	words := []uint64{uint64(id), 1, 2, 3}
	var b []byte
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

// The fake provider fails on purpose for these peers.
const (
	nobodyID  = 60001 + iota // fi_av_insert refuses this address
	cqErrorID                // sends to it end in an error completion
	deviceID                 // a send to this peer breaks the receive queue
	foreignID                // a send to this peer completes with an invalid context
)

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

var devices = []string{"ud", "nic"}

func TestFakeInfo(t *testing.T) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/gofake"})
	if err != nil || len(infos) != 2 {
		t.Fatalf("%d infos, %v; want 2", len(infos), err)
	}
	for _, info := range infos {
		ud := info.Domain == "ud"
		want := fabric.Info{
			MTUBytes: 1936, InjectBytes: 64, TxPrefixBytes: 64, RxPrefixBytes: 64, Source: true,
		}
		if ud {
			want = fabric.Info{MTUBytes: 1960, InjectBytes: 128, RxPrefixBytes: 40, LocalMR: true}
		}
		if info.MTUBytes != want.MTUBytes || info.InjectBytes != want.InjectBytes ||
			info.TxPrefixBytes != want.TxPrefixBytes || info.RxPrefixBytes != want.RxPrefixBytes ||
			info.Source != want.Source || info.LocalMR != want.LocalMR {
			t.Errorf("%s: %+v, want %+v", info.Domain, info, want)
		}
		d := openFake(t, info.Domain, fabric.DomainConfig{Buffers: 2})
		if got := d.Info(); got.CanWait == ud || got.Source == ud {
			t.Errorf("%s: opened with CanWait %v, Source %v", info.Domain, got.CanWait, got.Source)
		}
	}
}

// TestFakeTransfer sends every kind of datagram with prefixes, registered memory and contexts. The
// fake provider refuses sends that break the rules, and overwrites the prefixes.
func TestFakeTransfer(t *testing.T) {
	for _, dev := range devices {
		t.Run(dev, func(t *testing.T) {
			d := openFake(t, dev, fabric.DomainConfig{Buffers: 8})
			a := openEndpoint(t, d, fabric.EndpointConfig{})
			b := openEndpoint(t, d, fabric.EndpointConfig{Source: true})
			toB, fromA := insert(t, d, b.Name()), insert(t, d, a.Name())
			arena := d.Arena()
			mem := make([]byte, 4096)
			for i := range mem {
				mem[i] = byte(i * 7)
			}
			region, err := d.RegisterRegion(mem)
			if err != nil {
				t.Fatal(err)
			}
			mtu, inject := uint32(a.Caps().MTUBytes), uint32(a.Caps().InjectBytes)
			for _, head := range []uint32{0, 1, inject - 1, inject, inject + 1, mtu - 1, mtu} {
				for _, tail := range []uint32{0, 1, inject, mtu} {
					if head+tail > mtu {
						continue
					}
					for i := range arena.Len() {
						fill(arena.Bytes(fabric.Buf(i)), byte(i+1))
					}
					mustRecv(t, b, 3)
					mustPost(t, a, fabric.Send{
						To: toB, Buf: 5, Len: head, Region: region, RegionOff: 11, RegionLen: tail,
					})
					c := poll(t, b)
					if want := (fabric.Completion{
						From: fabric.AddrUnknown, Buf: 3, Len: head + tail,
						Op: fabric.OpRecv,
					}); b.Caps().Source {
						want.From = fromA
						if c != want {
							t.Fatalf("%d+%d bytes: completion %+v, want %+v", head, tail, c, want)
						}
					} else if c != want {
						t.Fatalf("%d+%d bytes: completion %+v, want %+v", head, tail, c, want)
					}
					got := arena.Bytes(3)
					if !bytes.Equal(got[:head], bytes.Repeat([]byte{6}, int(head))) ||
						!bytes.Equal(got[head:head+tail], mem[11:11+tail]) {
						t.Fatalf("%d+%d bytes arrived altered", head, tail)
					}
					for i := range arena.Len() {
						rest := arena.Bytes(fabric.Buf(i))
						if i == 3 {
							rest = rest[head+tail:]
						}
						if bytes.Count(rest, []byte{byte(i + 1)}) != len(rest) {
							t.Fatalf("%d+%d bytes: buffer %d was written to", head, tail, i)
						}
					}
					if head+tail > inject {
						if c := poll(t, a); c.Op != fabric.OpSend || c.Buf != 5 || c.Errno != 0 {
							t.Fatalf("%d+%d bytes: send completed as %+v", head, tail, c)
						}
					}
					if rest := drain(t, a, 9); len(rest) != 0 {
						t.Fatalf("%d+%d bytes: more completions %+v", head, tail, rest)
					}
				}
			}
		})
	}
}

// TestFakeSources inserts and removes peers at random, and checks the sender of each datagram. All
// addresses of the fake provider collide in the table from libfabric's addresses to Addrs.
func TestFakeSources(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d, err := fabric.Open(fabric.Info{Provider: "ofi/gofake", Domain: "nic"},
			fabric.DomainConfig{Buffers: 4})
		if err != nil {
			rt.Fatal(err)
		}
		defer d.Close()
		rx := openEndpoint(t, d, fabric.EndpointConfig{Source: true})
		self := insert(t, d, rx.Name())
		var ends []fabric.Endpoint
		var addrs []fabric.Addr
		for range 6 {
			ends = append(ends, openEndpoint(t, d, fabric.EndpointConfig{}))
			addrs = append(addrs, fabric.AddrUnknown)
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(ends)-1).Draw(rt, "peer")
			if addrs[i] == fabric.AddrUnknown {
				addrs[i] = insert(t, d, ends[i].Name())
			} else if rapid.Bool().Draw(rt, "remove") {
				if err := d.Remove(addrs[i]); err != nil {
					rt.Fatal(err)
				}
				addrs[i] = fabric.AddrUnknown
			}
			for k, e := range ends {
				mustRecv(t, rx, 1)
				mustPost(t, e, fabric.Send{To: self, Buf: 2, Len: 4})
				if c := poll(t, rx); c.From != addrs[k] {
					rt.Fatalf("endpoint %d is %x, want %x of %x", k, c.From, addrs[k], addrs)
				}
			}
		}
	})
}

// TestFakeSourceFallback checks that an endpoint opens without FI_SOURCE if FI_SOURCE is not
// available.
func TestFakeSourceFallback(t *testing.T) {
	for _, tt := range []struct {
		dev    string
		depth  int
		source bool
		want   bool
	}{
		{"nic", 0, true, true},
		{"nic", 0, false, false},
		{"nic", 3, true, false},
		{"ud", 0, true, false},
	} {
		d := openFake(t, tt.dev, fabric.DomainConfig{Buffers: 2})
		e := openEndpoint(t, d, fabric.EndpointConfig{RxDepth: tt.depth, Source: tt.source})
		if got := e.Caps().Source; got != tt.want {
			t.Errorf("%+v: Source is %v", tt, got)
		}
	}
}

// TestFakeContext checks a provider that keeps state in its context. A buffer with an incomplete
// send cannot be used for a second send. After the completion the buffer can be used.
func TestFakeContext(t *testing.T) {
	for _, dev := range devices {
		d := openFake(t, dev, fabric.DomainConfig{Buffers: 8})
		e := openEndpoint(t, d, fabric.EndpointConfig{})
		f := openEndpoint(t, d, fabric.EndpointConfig{})
		s := fabric.Send{To: insert(t, d, e.Name()), Buf: 5, Len: 500}
		if n, err := e.Post([]fabric.Send{s, s}); n != 1 || !errors.Is(err, fabric.ErrAgain) {
			t.Errorf("%s: posting a buffer twice took %d, %v", dev, n, err)
		}
		if n, err := f.Post([]fabric.Send{s}); n != 0 || !errors.Is(err, fabric.ErrAgain) {
			t.Errorf("%s: posting it on another endpoint took %d, %v", dev, n, err)
		}
		if n, err := e.Recv([]fabric.Buf{5}); n != 0 || !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%s: receiving into it took %d, %v", dev, n, err)
		}
		poll(t, e)
		mustPost(t, f, s)
		// An endpoint is closed before its completion. The buffer then belongs to the caller again.
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		mustRecv(t, e, 5)
	}
}

// TestFakeDepth checks that no more sends are outstanding than the provider has room for, and that
// no send is lost.
func TestFakeDepth(t *testing.T) {
	for _, dev := range devices {
		for _, asked := range []int{0, 1, 5, 8, 100} {
			d := openFake(t, dev, fabric.DomainConfig{Buffers: 32})
			e := openEndpoint(t, d, fabric.EndpointConfig{TxDepth: asked})
			depth := e.Caps().TxDepth
			var sends []fabric.Send
			self := insert(t, d, e.Name())
			for i := range 12 {
				sends = append(sends, fabric.Send{To: self, Buf: fabric.Buf(i), Len: 500})
			}
			n, err := e.Post(sends)
			if n != depth || !errors.Is(err, fabric.ErrAgain) {
				t.Errorf("%s: depth %d took %d, %v", dev, depth, n, err)
			}
			// Completions that a sleep has found still count, because the depth bounds the unpolled
			// completions.
			if err := d.(fabric.Waiter).Wait(time.Millisecond); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				d.(fabric.Waiter).Wait(0)
			}
			if n, err := e.Post(sends[depth:]); n != 0 || !errors.Is(err, fabric.ErrAgain) {
				t.Errorf("%s: after Wait, %d more were taken, %v", dev, n, err)
			}
			for i := range depth {
				if c := poll(t, e); c.Buf != fabric.Buf(i) || c.Op != fabric.OpSend {
					t.Errorf("%s: completion %d is %+v", dev, i, c)
				}
			}
			mustPost(t, e, sends[11])
		}
	}
}

func TestFakeErrors(t *testing.T) {
	for _, dev := range devices {
		t.Run(dev, func(t *testing.T) {
			d := openFake(t, dev, fabric.DomainConfig{Buffers: 8, BufferBytes: 300})
			e := openEndpoint(t, d, fabric.EndpointConfig{})
			if _, err := d.Insert(fakeName(dev, nobodyID)); !errors.Is(err, syscall.EADDRNOTAVAIL) {
				t.Errorf("Insert of an unreachable peer: %v", err)
			}
			mustPost(t, e, fabric.Send{To: insert(t, d, fakeName(dev, cqErrorID)), Buf: 5, Len: 300})
			if c := poll(t, e); c.Buf != 5 || c.Op != fabric.OpSend ||
				c.Errno != int32(syscall.EHOSTUNREACH) {
				t.Errorf("failed send completed as %+v", c)
			}
			// The provider reports truncation by an error completion, and by a length beyond the
			// buffer.
			region, err := d.RegisterRegion(make([]byte, 1000))
			if err != nil {
				t.Fatal(err)
			}
			self := insert(t, d, e.Name())
			mustRecv(t, e, 2)
			mustPost(t, e, fabric.Send{To: self, Buf: 5, Region: region, RegionLen: 400})
			for range 2 {
				c := poll(t, e)
				if c.Op == fabric.OpRecv && (c.Buf != 2 || c.Len != 400 || c.Errno != 265) {
					t.Errorf("truncated datagram completed as %+v", c)
				}
			}
			mustPost(t, e, fabric.Send{To: insert(t, d, fakeName(dev, deviceID)), Buf: 5, Len: 1})
			var out [4]fabric.Completion
			for range 2 { // the error is final
				if n, err := e.Poll(out[:]); n != 0 || !errors.Is(err, syscall.ENODEV) {
					t.Errorf("Poll of a broken device = %d, %v; want ENODEV", n, err)
				}
			}
			f := openEndpoint(t, d, fabric.EndpointConfig{})
			mustPost(t, f, fabric.Send{To: insert(t, d, fakeName(dev, foreignID)), Buf: 6, Len: 300})
			for range 4 {
				if _, err = f.Poll(out[:]); err != nil {
					break
				}
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("a completion of somebody else's context: %v, want EIO", err)
			}
		})
	}
}

// TestFakeWait checks that a Wait does not miss late completions, and that a queue without a
// descriptor is polled often enough.
func TestFakeWait(t *testing.T) {
	for _, dev := range devices {
		d := openFake(t, dev, fabric.DomainConfig{Buffers: 8})
		e := openEndpoint(t, d, fabric.EndpointConfig{})
		w := d.(fabric.Waiter)
		mustPost(t, e, fabric.Send{To: insert(t, d, e.Name()), Buf: 5, Len: 500})
		var out [1]fabric.Completion
		for {
			if err := w.Wait(-1); err != nil { // would last for ever without the send
				t.Fatal(err)
			}
			if n, _ := e.Poll(out[:]); n == 1 {
				break
			}
		}
		// A completion that Wait finds is not lost. The fake provider completes the send at the
		// second look at the queue.
		mustPost(t, e, fabric.Send{To: insert(t, d, e.Name()), Buf: 5, Len: 500})
		if err := w.Wait(0); err != nil {
			t.Fatal(err)
		}
		if n, err := e.Poll(out[:]); n != 1 || err != nil {
			t.Errorf("%s: Poll after Wait = %d, %v; want 1", dev, n, err)
		}
		if dev == "ud" {
			if err := w.Wait(-1); err != nil { // without a descriptor: returns at once
				t.Fatal(err)
			}
		}
		w.Wake()
		if err := w.Wait(-1); err != nil {
			t.Fatal(err)
		}
		// A failure that Wait finds is not lost either.
		mustPost(t, e, fabric.Send{To: insert(t, d, fakeName(dev, foreignID)), Buf: 5, Len: 500})
		for range 3 {
			if err := w.Wait(0); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := e.Poll(out[:]); n != 0 || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: Poll after Wait met a failure = %d, %v; want EIO", dev, n, err)
		}
	}
}

// TestFakeRelease opens and closes with all objects in use. The fake provider refuses a wrong order
// of closing (EBUSY).
func TestFakeRelease(t *testing.T) {
	for _, dev := range devices {
		files, mem := openFiles(t), mapped(t)
		for range 20 {
			d, err := fabric.Open(fabric.Info{Provider: "ofi/gofake", Domain: dev},
				fabric.DomainConfig{Buffers: 1024, BufferBytes: 1 << 16})
			if err != nil {
				t.Fatal(err)
			}
			e := openEndpoint(t, d, fabric.EndpointConfig{Source: true})
			self := insert(t, d, e.Name())
			mustRecv(t, e, 1, 2, 3)
			mustPost(t, e, fabric.Send{To: self, Buf: 9, Len: 400})
			if _, err := d.RegisterRegion(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			if err := d.Remove(self); err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if now := openFiles(t); now != files {
			t.Errorf("%s: %d descriptors before, %d after", dev, files, now)
		}
		if now := mapped(t); now-mem > leakBytes {
			t.Errorf("%s: %d bytes mapped before, %d after", dev, mem, now)
		}
	}
}
