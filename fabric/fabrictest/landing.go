package fabrictest

import (
	"bytes"
	"slices"
	"testing"

	"gobtl/fabric"
)

type landing struct {
	whole     []byte // the memory passed to Land, with a guard before and after
	mem       []byte
	headBytes int
	named     []named
	count     int // datagrams received directly, in all landings
}

type named struct {
	off  int
	data []byte
}

const (
	guardBytes = 64
	guardFill  = 0xa5
)

func (q *port) lander() fabric.Lander {
	q.tb.Helper()
	l, ok := q.ep.(fabric.Lander)
	if !q.caps.Landing {
		if ok && l.Land(make([]byte, 64), 8) {
			q.tb.Errorf("%s: Land without Caps.Landing succeeds", q.f.Name)
		}
		q.tb.Skipf("%s: Caps.Landing is false", q.f.Name)
	}
	if !ok {
		q.fatalf("Caps.Landing, but the endpoint is no Lander")
	}
	return l
}

// The method "land" calls Lander.Land with sizeBytes bytes of direct-receive memory. A provider
// writes the bytes after the first headBytes bytes of each datagram to the direct-receive memory.
func (q *port) land(sizeBytes, headBytes int) {
	q.tb.Helper()
	l := q.lander()
	whole := bytes.Repeat([]byte{guardFill}, sizeBytes+2*guardBytes)
	mem := whole[guardBytes:][:sizeBytes:sizeBytes]
	if sizeBytes == 0 {
		mem = nil
	}
	q.await("a new landing to be taken", func() bool {
		if l.Land(mem, headBytes) {
			return true
		}
		if !q.filled {
			q.fatalf("Land refuses although the last Poll had room left")
		}
		q.poll(batchMax)
		return false
	})
	q.checkLanding()
	q.landing = landing{whole: whole, mem: mem, headBytes: headBytes, count: q.landing.count}
}

// The method "landed" joins the two parts of a datagram that Poll has written partly to its buffer
// and partly to the direct-receive memory.
func (q *port) landed(c fabric.Completion) []byte {
	q.tb.Helper()
	l := &q.landing
	off, n, end := int64(c.LandedOff), int64(c.Landed), int64(0)
	if k := len(l.named); k > 0 {
		end = int64(l.named[k-1].off + len(l.named[k-1].data))
	}
	switch {
	case int64(c.Len)-n != int64(l.headBytes):
		q.fatalf("%d of %d bytes landed, behind a head of %d: %+v", n, c.Len, l.headBytes, c)
	case off < end:
		q.fatalf("landed at %d, where another stands up to %d: %+v", off, end, c)
	case off+n > int64(len(l.mem)):
		q.fatalf("landed at %d to %d of %d: %+v", off, off+n, len(l.mem), c)
	}
	data := bytes.Clone(l.mem[off : off+n])
	l.named = append(l.named, named{int(off), data})
	l.count++
	return slices.Concat(q.arena.Bytes(c.Buf)[:l.headBytes], data)
}

// checkLanding checks that the provider has not changed bytes that a Completion has already
// reported, and has not written outside the direct-receive memory.
func (q *port) checkLanding() {
	q.tb.Helper()
	l := &q.landing
	guard := bytes.Repeat([]byte{guardFill}, guardBytes)
	if len(l.whole) > 0 &&
		(!bytes.HasPrefix(l.whole, guard) || !bytes.HasSuffix(l.whole, guard)) {
		q.fatalf("memory outside of the landing was changed")
	}
	for _, part := range l.named {
		if !bytes.Equal(l.mem[part.off:][:len(part.data)], part.data) {
			q.fatalf("what had landed at %d, %d bytes, was changed", part.off, len(part.data))
		}
	}
}

// testLanding receives bursts of datagrams into direct-receive memory that can hold all, some or
// none of the payloads.
func testLanding(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	b.lander()
	to := a.insert(b)
	mtu := a.caps.MTUBytes
	key := uint64(0)
	for i, tc := range []struct {
		sizes     []int
		headBytes int
		share     int // size of the memory, in percent of the payload bytes
	}{
		{slices.Repeat([]int{mtu}, 20), 24, 100},
		{slices.Repeat([]int{mtu}, 20), 0, 100},
		{append(slices.Repeat([]int{1200}, 40), 700), 24, 100},
		{append(slices.Repeat([]int{1200}, 40), 700), 24, 50},
		{append(slices.Repeat([]int{1200}, 40), 24), 24, 100},
		{append(slices.Repeat([]int{1200}, 40), 25), 24, 99},
		{slices.Repeat([]int{1200}, 40), 1200, 100},
		{slices.Repeat([]int{1200}, 40), 1199, 100},
		{slices.Repeat([]int{1200}, 40), mtu + 1, 100},
		{slices.Repeat([]int{16}, 30), 24, 1000},
		{slices.Repeat([]int{100, 100, 700, 8, 700, 700, 20}, 6), 24, 100},
		{slices.Repeat([]int{mtu, 50}, 8), 24, 100},
		{slices.Repeat([]int{1, mtu / 2, mtu / 2, mtu / 2, mtu}, 5), 24, 70},
		{append(slices.Repeat([]int{mtu/3 + 1}, 12), slices.Repeat([]int{mtu / 4}, 12)...), 32, 100},
	} {
		tc.sizes = slices.Clone(tc.sizes[:min(len(tc.sizes), b.burstRoom())])
		behind := 0
		for j := range tc.sizes {
			tc.sizes[j] = min(tc.sizes[j], mtu)
			behind += max(tc.sizes[j]-tc.headBytes, 0)
		}
		b.landing.count = 0
		for round := range 6 { // repeated, because a provider may predict sizes
			b.stock(len(tc.sizes))
			b.land(max(behind*tc.share/100, 1), tc.headBytes)
			want := a.volley(to, key, tc.sizes...)
			b.expectIn(1+(i+round)%batchMax, want...)
			b.checkLanding()
			key++
		}
		a.settle()
		if i == 0 && b.landing.count == 0 && mtu > 24 {
			t.Errorf("%s: of %d full-size runs into landings made for them, nothing landed", f.Name, 6)
		}
	}
}

// testLandingsChange calls Lander.Land with new memory or with nil after each Poll, while datagrams
// of different sizes arrive.
func testLandingsChange(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	b.lander()
	to := a.insert(b)
	mtu := a.caps.MTUBytes
	for i := range 40 {
		var want [][]byte
		left := b.burstRoom()
		for j, burst := range [][]int{
			slices.Repeat([]int{mtu}, 1+i%9), {40}, slices.Repeat([]int{min(mtu, 300+i)}, 12), {1, 2, 3},
		} {
			burst = burst[:min(len(burst), left)]
			left -= len(burst)
			for k := range burst {
				burst[k] = min(burst[k], mtu)
			}
			b.stock(len(burst))
			want = append(want, a.volley(to, uint64(i<<8|j), burst...)...)
		}
		b.await("a burst with changing landings", func() bool {
			polls := len(b.arrived) + i
			b.land([]int{0, 4 * mtu, 100, 1, 2*mtu - 7}[polls%5], []int{24, 0, 33}[polls%3])
			b.poll(1 + polls%7)
			b.checkLanding()
			return len(b.arrived) >= len(want)
		})
		b.expect(want...)
		a.settle()
	}
	b.land(0, 0)
	b.stock(1)
	want := a.volley(to, 99, mtu)
	b.expect(want...)
}
