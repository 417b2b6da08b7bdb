package btl

import (
	"testing"

	"gobtl/fabric/mem"
)

// The memory of large messages that are copied is used again, up to a bound: what has lain idle for
// longest goes first, and what is larger than the bound is not kept at all.
func TestLargeMemoryIsKept(t *testing.T) {
	var d descriptors
	const size = 1 << 20
	give := func(mem []byte) { d.giveBack(&Fragment{ep: &Endpoint{}, own: mem, state: fragSent}) }
	same := func(a, b []byte) bool { return &a[:1][0] == &b[:1][0] }
	first := d.takeLarge(size)
	give(first)
	second := d.takeLarge(size - 1)
	if !same(first, second) || len(second) != size-1 || d.largeBytes != 0 {
		t.Errorf("other memory, of %d bytes; %d are idle", len(second), d.largeBytes)
	}
	give(second)
	if mem := d.takeLarge(size + 1); same(first, mem) || len(mem) != size+1 {
		t.Error("memory that is too small")
	}
	if mem := d.takeLarge(ownBytesMax); same(first, mem) {
		t.Error("a small message takes large memory")
	}
	for range 2 * largeBytesMax / size {
		give(make([]byte, size))
	}
	give(make([]byte, largeBytesMax+1))
	if n := len(d.large); n != largeBytesMax/size || d.largeBytes != largeBytesMax {
		t.Errorf("%d pieces and %d bytes are idle, want %d bytes", n, d.largeBytes, largeBytesMax)
	}
	for range d.large {
		if same(first, d.takeLarge(size)) {
			t.Error("the oldest is kept")
		}
	}
	give(make([]byte, largeBytesMax))
	if len(d.large) != 1 || d.largeBytes != largeBytesMax {
		t.Errorf("%d pieces and %d bytes are idle after the largest", len(d.large), d.largeBytes)
	}
}

// A loop that sends large messages of the transport's memory makes it once.
func TestLargeAllocAgain(t *testing.T) {
	ep := newBench(t, mem.Config{}, 2, Config{}).connect(0, 1)
	var before *byte
	for i := range 3 {
		f, err := ep.Alloc(3, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && before != &f.Bytes()[0] {
			t.Error("other memory than before")
		}
		before = &f.Bytes()[0]
		if err := ep.Free(f); err != nil {
			t.Fatal(err)
		}
	}
}
