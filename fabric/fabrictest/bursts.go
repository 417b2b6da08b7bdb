package fabrictest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"gobtl/fabric"
)

// Providers are allowed to pass several datagrams of equal size to the kernel as one message, and
// to receive several datagrams as one message. The tests in bursts.go check that callers see no
// difference between single and coalesced datagrams.

// burstMax is the largest number of datagrams in a burst of the tests, and is larger than the 64
// segments that older Linux kernels accept in one message.
const burstMax = 100

func (q *port) burstRoom() int {
	return min(burstMax, q.caps.RecvCapacity, q.caps.RxDepth)
}

func (q *port) volley(to fabric.Addr, key uint64, sizes ...int) [][]byte {
	q.tb.Helper()
	if len(q.free) < len(sizes) {
		q.settle()
	}
	want := make([][]byte, len(sizes))
	sends := make([]fabric.Send, len(sizes))
	for i, size := range sizes {
		want[i] = pattern(key<<16|uint64(i), size)
		sends[i] = q.load(to, want[i])
	}
	q.postAll(sends)
	return want
}

func (q *port) expectIn(room int, want ...[]byte) {
	q.tb.Helper()
	q.await("a burst to arrive", func() bool {
		q.poll(room)
		return len(q.arrived) >= len(want)
	})
	q.expect(want...)
}

// burstSizes are the datagram sizes for bursts.
func burstSizes(c fabric.Caps) []int {
	sizes := []int{1, 8, 100, 512, 1200, c.MTUBytes / 7, c.MTUBytes / 3, c.MTUBytes}
	sizes = slices.DeleteFunc(sizes, func(n int) bool { return n < 1 || n > c.MTUBytes })
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// testEqualBursts posts batches of datagrams of equal size in which only the last datagram is
// shorter.
func testEqualBursts(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	to := a.insert(b)
	key := uint64(0)
	for i, count := range []int{2, 3, 5, 8, 33, 44, 45, 64, 65, burstMax} {
		count = min(count, b.burstRoom())
		for j, size := range burstSizes(a.caps) {
			lasts := []int{size, size - 1, 1, 0}
			for k := range 2 { // two sizes of the last datagram for each count
				last := lasts[(2*i+j+k)%len(lasts)]
				if last == 0 && f.NoZeroLength != "" {
					continue
				}
				key++
				sizes := append(slices.Repeat([]int{size}, count-1), last)
				b.stock(count)
				b.expectIn(1+int(key*7)%batchMax, a.volley(to, key, sizes...)...)
			}
		}
		a.settle()
	}
}

// testMixedBursts posts batches of datagrams with random sizes and destinations, including some
// series of datagrams of equal size.
func testMixedBursts(t *testing.T, f *Fixture) {
	cfg := f.Endpoint
	cfg.Source = true
	left, right := newParty(t, f, fabric.DomainConfig{}), newParty(t, f, fabric.DomainConfig{})
	to := []*port{left.open(cfg), right.open(cfg), right.open(cfg)}
	from := []*port{newPort(t, f), newPort(t, f)}
	// Each receiver needs room for a whole batch, because all datagrams of a batch can go to the same
	// receiver.
	room := min(to[0].burstRoom(), to[1].burstRoom(), to[2].burstRoom()) / len(from)
	if room == 0 {
		t.Skipf("%s: holds %d datagrams unread", f.Name, to[0].caps.RecvCapacity)
	}
	source := make(map[[2]*port]fabric.Addr) // inserted before any send
	for _, rx := range to {
		for _, tx := range from {
			source[[2]*port{rx, tx}] = fabric.AddrUnknown
			if rx.caps.Source {
				source[[2]*port{rx, tx}] = rx.insert(tx)
			}
		}
	}
	const seed = 0x5eed
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range uint64(60) {
		want := make([][]datagram, len(to))
		for i, tx := range from {
			count := 1 + rng.IntN(room)
			for j, burst := range tx.scatter(rng, to, round<<1|uint64(i), count) {
				for _, data := range burst {
					want[j] = append(want[j], datagram{source[[2]*port{to[j], tx}], data})
				}
			}
		}
		for j, rx := range to {
			rx.expectFrom(1+rng.IntN(batchMax), want[j])
		}
		for _, tx := range from {
			tx.settle()
		}
	}
}

// The method "scatter" posts one batch of sends to several ports, and posts a receive for each
// send. The method "scatter" returns the datagrams that each port will receive.
func (q *port) scatter(rng *rand.Rand, to []*port, key uint64, count int) [][][]byte {
	q.tb.Helper()
	want := make([][][]byte, len(to))
	sends := make([]fabric.Send, count)
	sizes := append(burstSizes(q.caps), 7, min(1024, q.caps.MTUBytes))
	dest, size := 0, 1
	for i := range sends {
		if rng.IntN(3) == 0 {
			dest = rng.IntN(len(to))
		}
		if rng.IntN(3) == 0 {
			size = min(sizes[rng.IntN(len(sizes))], q.caps.MTUBytes)
		}
		data := pattern(key<<16|uint64(i), size)
		want[dest] = append(want[dest], data)
		sends[i] = q.load(q.insert(to[dest]), data)
	}
	for i, rx := range to {
		rx.stock(len(want[i]))
	}
	q.postAll(sends)
	return want
}

// expectFrom receives datagrams of several senders, and checks the order of each sender's
// datagrams.
func (q *port) expectFrom(room int, want []datagram) {
	q.tb.Helper()
	q.await("bursts to arrive", func() bool {
		q.poll(room)
		return len(q.arrived) >= len(want)
	})
	for _, d := range q.collect(len(want)) {
		same := func(w datagram) bool { return w.from == d.from }
		i := slices.IndexFunc(want, func(w datagram) bool {
			return same(w) && bytes.Equal(w.data, d.data)
		})
		if i < 0 {
			q.fatalf("%d bytes %x... from %d: nobody sent that here, or not now", len(d.data),
				head(d.data), d.from)
		}
		if q.caps.Source && slices.IndexFunc(want, same) < i {
			q.fatalf("%d bytes %x... from %d come before their turn", len(d.data), head(d.data), d.from)
		}
		want = slices.Delete(want, i, i+1)
	}
}

// testSizesChange sends bursts with different datagram sizes. The receiver polls either after each
// burst or only after the last burst.
func testSizesChange(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	to := a.insert(b)
	mtu := a.caps.MTUBytes
	mid := (mtu + 1) / 2
	for i, bursts := range [][][]int{
		{{mtu}, {1}},
		{{1}, {mtu}},
		{{mtu, 1}, {1, mtu}},
		{{1}, {1}, {mtu, mtu}, {1}},
		{{mtu, mtu, mid}, {mid, mid, 1}, {1, 1, 1}, {mid, mid}, {mtu, mtu}},
		{{mid, mid, mid}, {mtu}, {mid, mid, mid}, {1}, {mid, mid, mid}},
		{{8, 8, 8, 8, 8, 8}, {mtu}, {8}, {8, 8, 8, 8}, {mtu, mtu, mtu}, {8, 8}},
		{{min(9, mtu), 8}, {8, 8, min(9, mtu)}, {8, 7, 8, 7}, {7, 7, 7, 8, 8, 8}},
	} {
		for _, together := range []bool{false, true} {
			var want [][]byte
			left := b.burstRoom()
			for j, sizes := range bursts {
				sizes = sizes[:min(len(sizes), left)]
				left -= len(sizes)
				b.stock(len(sizes))
				sent := a.volley(to, uint64(i<<8|j), sizes...)
				if want = append(want, sent...); !together {
					b.expectIn(1+(i+j)%4, want...)
					want, left = nil, b.burstRoom()
				}
			}
			b.expectIn(1+i%4, want...)
			a.settle()
		}
	}
}

// testSurplusWaits sends more datagrams than the receiver has posted buffers, and checks that the
// surplus datagrams wait until the receiver posts buffers for them.
func testSurplusWaits(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	to := a.insert(b)
	key := uint64(0)
	all := burstSizes(a.caps)
	for i := range all {
		for _, posted := range []int{0, 1, 2, 7, 20, 40} {
			var want [][]byte
			bursts := min(4, b.burstRoom())
			each := min(16, b.burstRoom()/bursts)
			b.stock(min(posted, bursts*each))
			for j := range bursts {
				key++
				size := all[(i+j/2*posted)%len(all)]
				sizes := append(slices.Repeat([]int{size}, each-1), (size+1)/2)
				want = append(want, a.volley(to, key, sizes...)...)
			}
			for more := min(posted, len(want)); len(want) > 0; more = min(2*posted+1, len(want)) {
				b.expect(want[:more]...)
				want = want[more:]
				b.stock(min(2*posted+1, len(want)))
			}
			a.settle()
		}
	}
}

// testGatherLengths sends bursts of datagrams that are gathered from a packet buffer and a
// registered region, with many lengths and region offsets.
func testGatherLengths(t *testing.T, f *Fixture) {
	a, b := gatherPorts(t, f)
	to := a.insert(b)
	mtu := a.caps.MTUBytes
	fresh := pattern(1, 2*mtu+64)
	memory := slices.Clone(fresh)
	region := a.register(memory)
	var lengths []int
	for n := 1; n <= min(mtu, 300); n++ {
		lengths = append(lengths, n)
	}
	for n := 301; n < mtu; n += 1 + n/8 {
		lengths = append(lengths, n, n+1)
	}
	lengths = append(lengths, mtu-1, mtu)
	for i, total := range lengths {
		count := min(5, b.burstRoom())
		sends := make([]fabric.Send, count)
		want := make([][]byte, count)
		injected := true
		for j := range sends {
			size := min(max(total, 1), mtu)
			if j == count-1 {
				size = (size + 1) / 2
			}
			front := pattern(uint64(i<<8|j), min((i+j)%33, size))
			if (i+j)%5 == 4 { // one datagram of the run has no region
				front = pattern(uint64(i<<8|j), size)
			}
			s := a.load(to, front)
			off, rest := (i*13+j)%64, size-len(front)
			if rest > 0 || i%2 == 0 {
				s.Region, s.RegionOff, s.RegionLen = region, uint64(off), uint32(rest)
			}
			sends[j], want[j] = s, slices.Concat(front, fresh[off:off+rest])
			injected = injected && a.injected(&s)
		}
		b.stock(count)
		a.postAll(sends)
		if injected { // the region belongs to the caller again
			clear(memory)
		}
		b.expect(want...)
		a.settle()
		copy(memory, fresh)
	}
	a.deregister(region)
}

// testRecvCapacityBursts sends Caps.RecvCapacity datagrams to one endpoint in bursts. The receiver
// polls only after the last burst.
func testRecvCapacityBursts(t *testing.T, f *Fixture) {
	mtu := newPort(t, f).caps.MTUBytes
	sizes := append(burstSizes(newPort(t, f).caps), mtu/2+1, mtu/4+1)
	for i, size := range sizes {
		tx, rx, to := capacityRun(t, f)
		count := min(rx.caps.RecvCapacity, maxCapacityTested)
		key := uint64(i) << 20
		for sent := 0; sent < count; {
			burst := slices.Repeat([]int{size}, min(64, count-sent))
			tx.volley(to, key+uint64(sent), burst...)
			sent += len(burst)
		}
		tx.settle()
		next := 0
		rx.await("the datagrams that RecvCapacity promises, of any size", func() bool {
			rx.poll(batchMax)
			for _, d := range rx.arrived {
				burst, place := key+uint64(next-next%64), uint64(next%64)
				if !bytes.Equal(d.data, pattern(burst<<16|place, size)) {
					t.Fatalf("RecvCapacity is %d; of %d datagrams of %d bytes left unread, number %d is "+
						"missing or altered", rx.caps.RecvCapacity, count, size, next)
				}
				next++
			}
			rx.stock(len(rx.arrived))
			rx.arrived = rx.arrived[:0]
			return next == count
		})
		rx.hush(0)
		tx.dom.Close()
		rx.dom.Close()
	}
}
