package fabrictest

import (
	"errors"
	"slices"
	"testing"

	"gobtl/fabric"
)

// gatherPorts opens two ports for a test of sends from regions, and skips the test if the provider
// does not support sends from regions (Caps.Gather).
func gatherPorts(t *testing.T, f *Fixture) (a, b *port) {
	a, b = newPort(t, f), newPort(t, f)
	if a.caps.Gather {
		return a, b
	}
	if _, err := a.dom.RegisterRegion(make([]byte, 64)); !errors.Is(err, fabric.ErrNotSupported) {
		t.Errorf("RegisterRegion without Caps.Gather: %v, want ErrNotSupported", err)
	}
	n, err := a.ep.Post([]fabric.Send{{To: a.insert(b), Len: 1, Region: 1, RegionLen: 1}})
	if n != 0 || err == nil {
		t.Errorf("Post with a region without Caps.Gather: %d, %v", n, err)
	}
	t.Skipf("%s: Caps.Gather is false", f.Name)
	return nil, nil
}

func (p *party) register(mem []byte) fabric.Region {
	p.tb.Helper()
	r, err := p.dom.RegisterRegion(mem)
	if err != nil || r == 0 {
		p.fatalf("RegisterRegion of %d bytes: region %d, %v", len(mem), r, err)
	}
	return r
}

func (p *party) deregister(r fabric.Region) {
	p.tb.Helper()
	if err := p.dom.DeregisterRegion(r); err != nil {
		p.fatalf("DeregisterRegion(%d): %v", r, err)
	}
}

func testGather(t *testing.T, f *Fixture) {
	a, b := gatherPorts(t, f)
	to := a.insert(b)
	mtu, inject := a.caps.MTUBytes, a.caps.InjectBytes
	memory := pattern(1, 3*mtu+5)
	other := pattern(2, min(512, mtu-5))
	region, second := a.register(memory), a.register(other)
	if region == second {
		t.Fatalf("two regions are both %d", region)
	}
	for i, tc := range []struct {
		head, off, size int
	}{
		{8, 0, 1},
		{8, 1, 7},
		{1, len(memory) - 1, 1},
		{32, 100, 200},
		{0, 3, 50},
		{16, 5, 0},
		{inject / 2, 0, inject - inject/2},
		{inject / 2, 9, inject - inject/2 + 1},
		{mtu / 2, 7, mtu - mtu/2},
		{1, len(memory) - (mtu - 1), mtu - 1},
		{0, 0, mtu},
	} {
		if tc.head+tc.size > mtu || tc.head+tc.size == 0 || tc.size < 0 {
			continue
		}
		b.stock(1)
		front := pattern(uint64(10+i), tc.head)
		s := a.load(to, front)
		s.Region, s.RegionOff, s.RegionLen = region, uint64(tc.off), uint32(tc.size)
		want := slices.Concat(front, memory[tc.off:tc.off+tc.size])
		a.postAll([]fabric.Send{s})
		if a.injected(&s) { // the region also belongs to the caller again
			fill(memory, 99)
		}
		b.expect(want)
		a.settle()
		fill(memory, 1)
	}
	b.stock(1)
	s := a.load(to, []byte("head "))
	s.Region, s.RegionLen = second, uint32(len(other))
	a.postAll([]fabric.Send{s})
	b.expect(slices.Concat([]byte("head "), other))
	a.settle()
	a.deregister(region)
	a.deregister(second)
}

// testGatherBounds posts sends that name an invalid region, and sends of bytes outside of their
// region.
func testGatherBounds(t *testing.T, f *Fixture) {
	a, b := gatherPorts(t, f)
	to := a.insert(b)
	b.stock(2)
	const size = 256
	region, gone := a.register(pattern(1, size)), a.register(pattern(2, size))
	a.deregister(gone)
	if err := a.dom.DeregisterRegion(gone); err == nil {
		t.Error("DeregisterRegion succeeds twice")
	}
	if err := a.dom.DeregisterRegion(0); err == nil {
		t.Error("DeregisterRegion(0) succeeds")
	}
	for _, tc := range []struct {
		what   string
		region fabric.Region
		off    uint64
		len    uint32
	}{
		{"one byte too many", region, 0, size + 1},
		{"begins at the end", region, size, 1},
		{"begins after the end", region, size + 1, 0},
		{"ends after the end", region, size - 1, 2},
		{"offset wraps", region, 1<<64 - 1, 2},
		{"offset is huge", region, 1 << 63, 1},
		{"offset of 32 bits", region, 1 << 32, 1},
		{"length is huge", region, 0, 1<<32 - 1},
		{"deregistered", gone, 0, 1},
		{"never registered", region + 1000, 0, 1},
		{"largest number", ^fabric.Region(0), 0, 1},
	} {
		s := a.load(to, []byte{1, 2, 3, 4})
		s.Region, s.RegionOff, s.RegionLen = tc.region, tc.off, tc.len
		n, err := a.post([]fabric.Send{s})
		if n != 0 || err == nil || errors.Is(err, fabric.ErrAgain) {
			t.Fatalf("region %s: Post returned %d, %v", tc.what, n, err)
		}
		a.give(s.Buf)
	}
	b.hush(0)
	s := a.load(to, []byte("good"))
	s.Region, s.RegionOff, s.RegionLen = region, size, 0 // no bytes, at the end of the region
	a.postAll([]fabric.Send{s})
	b.expect([]byte("good"))
}
