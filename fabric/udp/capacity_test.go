//go:build linux

package udp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
	"gobtl/internal/testenv"
)

// TestCapacityOfRuns leaves as many datagrams unread as RecvCapacity permits. Some datagrams are
// read in between, whose memory the kernel releases late. The test also uses runs, whose cost
// differs from that of single datagrams.
func TestCapacityOfRuns(t *testing.T) {
	for _, size := range []int{600, 1472, 1636, 8972} {
		for _, run := range []int{1, 2, 3, 5, 27} {
			if run*size > inet.MaxPayload4Bytes {
				continue
			}
			t.Run(fmt.Sprintf("%dx%d", run, size), func(t *testing.T) { testCapacity(t, size, run) })
		}
	}
}

func testCapacity(t *testing.T, size, run int) {
	cfg := fabric.DomainConfig{Buffers: 2 * 64, BufferBytes: size}
	p := newPair(t, Options{}, cfg, fabric.EndpointConfig{RecvBufferBytes: 208 << 10})
	sends := make([]fabric.Send, run)
	for i := range sends {
		sends[i] = fabric.Send{To: p.to, Buf: fabric.Buf(i), Len: uint32(size)}
	}
	p.stock(64, 64)
	rng := rand.New(rand.NewPCG(uint64(size), uint64(run)))
	capacity, unread := p.b.caps.RecvCapacity, 0
	for range 200 {
		for capacity-unread > 0 {
			n := min(run, capacity-unread)
			if k, err := p.a.Post(sends[:n]); k != n || err != nil {
				t.Fatalf("Post: %d, %v", k, err)
			}
			unread += n
		}
		n := 1 + rng.IntN(unread)
		p.collectAll(n)
		unread -= n
	}
	p.collectAll(unread)
}

// collectAll polls count datagrams, and posts their buffers again.
func (p *pair) collectAll(count int) {
	p.tb.Helper()
	for count > 0 {
		list := p.collect(min(count, 32))
		for _, c := range list {
			if _, err := p.b.Recv([]fabric.Buf{c.Buf}); err != nil {
				p.tb.Fatal(err)
			}
		}
		count -= len(list)
	}
}

// TestRecvAttr checks the text for a receive buffer that is smaller than requested. The text states
// the cost and the remedy.
func TestRecvAttr(t *testing.T) {
	for _, tc := range []struct {
		asked, got, mtu int
		want            string
	}{
		{0, 2 * 212992, 1472, "212992 of 4194304 bytes asked for, 138 datagrams of 1472 bytes: " +
			"at most 203 MB/s of such over a path of a millisecond or more; " +
			"for all of it: sysctl -w net.core.rmem_max=4194304"},
		{0, 2 * 4194304, 1472, "4194304 bytes, 2730 datagrams of 1472 bytes"},
		{100000, 2 * 100000, 1472, "100000 bytes, 65 datagrams of 1472 bytes"},
		{-1, 212992, 1472, "106496 bytes, 69 datagrams of 1472 bytes: " +
			"at most 101 MB/s of such over a path of a millisecond or more"},
	} {
		if got := recvAttr(tc.asked, tc.got, tc.mtu); got.Value != tc.want {
			t.Errorf("%d of %d asked for, MTU %d: %q, want %q", tc.got, tc.asked, tc.mtu, got.Value, tc.want)
		}
	}
	// The attribute of an open domain is that of the smallest buffer.
	const size = 1472
	p := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64, BufferBytes: size},
		fabric.EndpointConfig{RecvBufferBytes: 208 << 10})
	if _, err := p.d.OpenEndpoint(fabric.EndpointConfig{RecvBufferBytes: 100 << 10}); err != nil {
		t.Fatal(err)
	}
	want := fabric.Attr{Name: "receive buffer", Value: "102400 bytes, 66 datagrams of 1472 bytes"}
	if attrs := p.d.Info().Attrs; !slices.Contains(attrs, want) {
		t.Errorf("want %v in %v", want, attrs)
	}
}

// TestSendAttr checks the text for a send buffer that is smaller than requested, which states the
// remedy.
func TestSendAttr(t *testing.T) {
	for got, want := range map[int]string{
		2 * 212992: "212992 of 1048576 bytes asked for: a long train waits for the device in parts; " +
			"for all of it: sysctl -w net.core.wmem_max=1048576",
		2 << 20: "1048576 bytes",
	} {
		if got := sendAttr(got); got.Value != want {
			t.Errorf("%q, want %q", got.Value, want)
		}
	}
}

// TestAttrsOfOpen checks that an open domain has the same attributes as its Info before, in the
// same order. New information is added at the end.
func TestAttrsOfOpen(t *testing.T) {
	cfg := fabric.DomainConfig{Buffers: 64, BufferBytes: 1472}
	p := newPair(t, Options{}, cfg, fabric.EndpointConfig{})
	open, closed := p.d.Info().Attrs, p.d.info.Attrs
	if len(open) < len(closed) {
		t.Fatalf("%v, want all of %v", open, closed)
	}
	for i := range closed {
		if open[i].Name != closed[i].Name {
			t.Errorf("attribute %d is %q, was %q", i, open[i].Name, closed[i].Name)
		}
	}
	for _, name := range []string{"receive buffer", "send buffer"} {
		same := func(a fabric.Attr) bool { return a.Name == name }
		if !slices.ContainsFunc(open, same) {
			t.Errorf("no %s in %v", name, open)
		}
	}
}

// TestRunsOverflowAsOne overflows a receive buffer with runs of datagrams, and checks that Info
// counts each lost run as one packet.
func TestRunsOverflowAsOne(t *testing.T) {
	const size, run, runs = 1000, 16, 40
	cfg := fabric.DomainConfig{Buffers: 1 + runs*run, BufferBytes: size}
	p := newPair(t, Options{}, cfg, fabric.EndpointConfig{RecvBufferBytes: 1})
	if !p.a.sock.have.gso || !p.b.sock.have.gro {
		testenv.Missing(t, "this kernel has no UDP_SEGMENT or no UDP_GRO")
	}
	sends := slices.Repeat([]fabric.Send{{To: p.to, Len: size}}, run)
	for range runs {
		if n, err := p.a.Post(sends); n != run || err != nil {
			t.Fatal(n, err)
		}
	}
	p.stock(1, runs*run)
	received, out := 0, make([]fabric.Completion, runs*run)
	for {
		n, err := p.b.Poll(out)
		if err != nil {
			t.Fatal(err)
		}
		if received += n; n == 0 {
			break
		}
	}
	lost := runs*run - received
	want := fabric.Attr{
		Name:  fabric.OverrunsAttr,
		Value: strconv.Itoa(lost / run),
	}
	if attrs := p.d.Info().Attrs; lost == 0 || lost%run != 0 || !slices.Contains(attrs, want) {
		t.Errorf("%d datagrams lost: want %v in %v", lost, want, attrs)
	}
}

// TestOverflowIsCounted overflows a receive buffer, and checks the number of lost datagrams in
// Info.
func TestOverflowIsCounted(t *testing.T) {
	const size = 1000
	cfg := fabric.DomainConfig{Buffers: 64, BufferBytes: size}
	p := newPair(t, Options{NoGSO: true}, cfg, fabric.EndpointConfig{RecvBufferBytes: 1})
	count := 0
	for range 4 * p.b.caps.RecvCapacity {
		if _, err := p.a.Post([]fabric.Send{{To: p.to, Len: size}}); err != nil {
			t.Fatal(err)
		}
		count++
	}
	p.stock(1, 60)
	var out [60]fabric.Completion
	received := 0
	for {
		n, err := p.b.Poll(out[:])
		if err != nil {
			t.Fatal(err)
		}
		if received += n; n == 0 {
			break
		}
	}
	want := fabric.Attr{
		Name:  fabric.OverrunsAttr,
		Value: strconv.Itoa(count - received),
	}
	for _, state := range []string{"open", "closed"} {
		if attrs := p.d.Info().Attrs; received == count || !slices.Contains(attrs, want) {
			t.Errorf("%d of %d received, endpoint %s: want %v in %v", received, count, state, want, attrs)
		}
		p.b.Close()
	}
}
