//go:build linux

package shm

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gobtl/fabric"
)

// ringsResident is the number of resident bytes in this process's mappings of rings, and the number
// of these mappings.
func ringsResident(t *testing.T) (bytes, mappings int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ring := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		var kib int
		switch _, err := fmt.Sscanf(line, "Rss: %d kB", &kib); {
		case err == nil && ring:
			bytes += kib << 10
		case strings.Contains(line, "memfd:gobtl-ring"):
			ring = true
			mappings++
		case strings.Contains(line, "-") && !strings.Contains(line, ":  "):
			ring = false // another mapping begins
		}
	}
	return bytes, mappings
}

// TestMemoryOfManyPeers checks that the rings to 256 peers have the size that Info states, and take
// memory only as far as datagrams have filled them.
func TestMemoryOfManyPeers(t *testing.T) {
	open := func() *domain {
		d := openAny(t, fabric.DomainConfig{Buffers: 64, BufferBytes: 4096})
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	from, to := open(), open()
	out, err := from.OpenEndpoint(fabric.EndpointConfig{TxDepth: 64, RxDepth: 1})
	if err != nil {
		t.Fatal(err)
	}
	beforeBytes, before := ringsResident(t)
	for i := range manyPeers {
		in, err := to.OpenEndpoint(fabric.EndpointConfig{TxDepth: 1, RxDepth: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Recv([]fabric.Buf{fabric.Buf(i % 64)}); err != nil {
			t.Fatal(err)
		}
		addr, err := from.Insert(in.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Post([]fabric.Send{{To: addr, Len: 100}}); err != nil {
			t.Fatal(err)
		}
		var c [1]fabric.Completion
		await(t, "a datagram", func() bool {
			n, err := in.Poll(c[:])
			return n > 0 || err != nil
		})
		if c[0].Len != 100 || c[0].Op != fabric.OpRecv {
			t.Fatalf("peer %d got %+v", i, c[0])
		}
	}
	if from.ringBytes != ringsBytes(ringBytesMax, manyPeers) {
		t.Errorf("%d bytes of rings, told %d", from.ringBytes, ringsBytes(ringBytesMax, manyPeers))
	}
	told := fmt.Sprintf("%d MiB for rings to %d peers", from.ringBytes>>20, manyPeers)
	ok := false
	for _, a := range from.Info().Attrs {
		ok = ok || a.Name == "memory" && strings.Contains(a.Value, told)
	}
	if !ok {
		t.Errorf("Info does not say %q: %v", told, from.Info().Attrs)
	}
	bytes, after := ringsResident(t)
	const each = 64 << 10 // the header and the first datagrams, with room for large pages
	if got := after - before; got != 2*manyPeers {
		t.Errorf("%d mappings of rings, want %d", got, 2*manyPeers)
	}
	if got := bytes - beforeBytes; got > 2*manyPeers*each || got < 2*manyPeers*headerBytes {
		t.Errorf("%d bytes in memory after a datagram each", got)
	}
}

// TestRingSizes checks that many early peers leave large enough rings for later peers, and that all
// rings together stay within the stated size.
func TestRingSizes(t *testing.T) {
	sizes := map[int]int{}
	sum, last := 0, ringBytesMax
	for range linksMax {
		size := ringSize(ringBytesMax, sum)
		if size > last || size < ringBytesMin {
			t.Fatalf("a ring of %d bytes behind one of %d", size, last)
		}
		sum, last = sum+size, size
		sizes[size]++
	}
	if behind := sizes[ringBytesMax] + sizes[ringMiddle]; behind < 2*100 {
		t.Errorf("%d rings hold a stream, fewer than 100 peers have", behind)
	}
	want := 256<<20 + linksMax*ringBytesMin
	if sum > want || sum != ringsBytes(ringBytesMax, linksMax) {
		t.Errorf("%d bytes of rings, want at most %d", sum, want)
	}
	if size := ringSize(ringBytesMin, 0); size != ringBytesMin {
		t.Errorf("a ring of %d bytes where %d were asked for", size, ringBytesMin)
	}
}

// TestRingBytes checks that rings of the smallest size carry the largest datagrams, and that the
// attributes show the size of the rings.
func TestRingBytes(t *testing.T) {
	open := func(ringBytes int) (*domain, *endpoint) {
		d := openAny(t, fabric.DomainConfig{Buffers: 64, BufferBytes: mtuBytes})
		d.ringMost = ringBytes
		t.Cleanup(func() { _ = d.Close() })
		e, err := d.OpenEndpoint(fabric.EndpointConfig{})
		if err != nil {
			t.Fatal(err)
		}
		return d, e.(*endpoint)
	}
	d, se := open(ringBytesMin)
	rd, re := open(ringBytesMax)
	to := insert(t, d, re)
	for range 8 {
		recv(t, re, 0)
		if n, err := se.Post([]fabric.Send{{To: to, Len: mtuBytes}}); n != 1 {
			t.Fatal(err)
		}
		var out [2]fabric.Completion
		await(t, "the largest datagram", func() bool {
			_, _ = se.Poll(out[:])
			rd.loop.tend()
			n, _ := re.Poll(out[:])
			return n == 1 && out[0].Len == mtuBytes
		})
	}
	if d.ringBytes != ringBytesMin || rd.takenBytes != ringBytesMin {
		t.Errorf("rings of %d bytes, taken %d, want %d", d.ringBytes, rd.takenBytes, ringBytesMin)
	}
	want := fmt.Sprintf("%d KiB for each", ringBytesMin>>10)
	if !slices.ContainsFunc(attrs(ringBytesMin), func(a fabric.Attr) bool {
		return a.Name == "ring" && strings.HasPrefix(a.Value, want)
	}) {
		t.Errorf("no attribute says %q: %v", want, attrs(ringBytesMin))
	}
}
