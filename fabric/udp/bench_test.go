//go:build linux

package udp

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"gobtl/fabric"
)

const (
	runLength = 44
	wireBytes = 1472
	headBytes = 32
)

// bulk is a run that is sent repeatedly.
type bulk struct {
	*pair
	count int
	sends []fabric.Send
	bufs  []fabric.Buf
	out   []fabric.Completion
}

func newBulk(tb testing.TB, o Options, gather bool) *bulk {
	return newBulkOf(tb, o, gather, runLength, wireBytes)
}

// newBulkOf makes a bulk of count datagrams of the same size.
func newBulkOf(tb testing.TB, o Options, gather bool, count, sizeBytes int) *bulk {
	const rxBuffers = 256
	cfg := fabric.DomainConfig{Buffers: count + rxBuffers, BufferBytes: sizeBytes}
	k := &bulk{pair: newPair(tb, o, cfg, fabric.EndpointConfig{}), count: count}
	k.out = make([]fabric.Completion, 64)
	k.bufs = make([]fabric.Buf, 0, 64)
	for i := range count {
		s := fabric.Send{To: k.to, Buf: fabric.Buf(i), Len: uint32(sizeBytes)}
		if gather {
			region, err := k.d.RegisterRegion(make([]byte, 1<<20))
			if err != nil {
				tb.Fatal(err)
			}
			s.Len, s.Region, s.RegionLen = headBytes, region, uint32(sizeBytes-headBytes)
			s.RegionOff = uint64(i * (wireBytes - headBytes))
		}
		k.sends = append(k.sends, s)
	}
	k.stock(count, rxBuffers)
	return k
}

func (k *bulk) post() {
	if n, err := k.a.Post(k.sends); err != nil {
		k.tb.Fatalf("Post: %d, %v", n, err)
	}
}

// drain polls until a run has arrived.
func (k *bulk) drain() {
	for got := 0; got < k.count; {
		n, err := k.b.Poll(k.out)
		if err != nil {
			k.tb.Fatal(err)
		}
		got += n
		k.bufs = k.bufs[:0]
		for i := range k.out[:n] {
			k.bufs = append(k.bufs, k.out[i].Buf)
		}
		if _, err := k.b.Recv(k.bufs); err != nil {
			k.tb.Fatal(err)
		}
	}
}

// BenchmarkPlan measures the part of Post that plans a run.
func BenchmarkPlan(b *testing.B) {
	for _, gather := range []bool{false, true} {
		b.Run(fmt.Sprintf("gather=%v", gather), func(b *testing.B) {
			k := newBulk(b, Options{}, gather)
			b.ReportAllocs()
			for b.Loop() {
				k.a.tx.plan(k.sends, true)
			}
			perDatagram(b)
		})
	}
}

// BenchmarkPost measures Post for runs that BenchmarkPoll polls. The other call is not timed,
// except for batches of 128 datagrams, whose number of messages depends on the bounds of a run.
func BenchmarkPost(b *testing.B) {
	for _, gather := range []bool{false, true} {
		b.Run(fmt.Sprintf("gather=%v", gather), func(b *testing.B) {
			k := newBulk(b, Options{}, gather)
			b.SetBytes(runLength * wireBytes)
			b.ReportAllocs()
			for b.Loop() {
				k.post()
				b.StopTimer()
				k.drain()
				b.StartTimer()
			}
			perDatagram(b)
		})
	}
	for _, sizeBytes := range []int{500, 1472, 2113, 4094, 8188} {
		const count = 128
		b.Run(fmt.Sprintf("%dx%d", count, sizeBytes), func(b *testing.B) {
			k := newBulkOf(b, Options{}, false, count, sizeBytes)
			b.SetBytes(int64(count * sizeBytes))
			b.ReportAllocs()
			for b.Loop() {
				k.post()
				k.drain()
			}
		})
	}
}

func BenchmarkPoll(b *testing.B) {
	k := newBulk(b, Options{}, false)
	b.SetBytes(runLength * wireBytes)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		k.post()
		b.StartTimer()
		k.drain()
	}
	perDatagram(b)
}

// BenchmarkStream sends and receives runs in one goroutine, with both copies and both system calls.
func BenchmarkStream(b *testing.B) {
	for _, o := range []Options{{}, {NoGSO: true}, {NoGRO: true}} {
		b.Run(o.name(), func(b *testing.B) {
			k := newBulk(b, o, false)
			b.SetBytes(runLength * wireBytes)
			b.ReportAllocs()
			for b.Loop() {
				k.post()
				k.drain()
			}
			perDatagram(b)
		})
	}
}

func perDatagram(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/runLength, "ns/datagram")
}

// BenchmarkHalfRoundTrip bounces a datagram between two threads that poll without a pause. One
// thread acts for all peers, whose turns alternate.
func BenchmarkHalfRoundTrip(b *testing.B) {
	for _, size := range []uint32{8, wireBytes} {
		for _, peers := range []int{1, 3} {
			b.Run(fmt.Sprintf("%dB/peers=%d", size, peers), func(b *testing.B) {
				halfRoundTrip(b, size, peers)
			})
		}
	}
}

func halfRoundTrip(b *testing.B, size uint32, peers int) {
	near := newPair(b, Options{}, smallConfig, fabric.EndpointConfig{}).end()
	var far []*end
	var to []fabric.Addr
	for range peers {
		f := newPair(b, Options{}, smallConfig, fabric.EndpointConfig{}).end()
		near.meet(f)
		f.meet(near)
		far, to = append(far, f), append(to, near.send1[0].To)
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for !stop.Load() {
			for _, f := range far {
				if f.poll() {
					f.send(size)
				}
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	next := 0
	for b.Loop() {
		near.send1[0].To = to[next%peers]
		next++
		near.send(size)
		for !near.poll() {
		}
	}
	b.StopTimer()
	stop.Store(true)
	<-done
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/half")
}

var smallConfig = fabric.DomainConfig{Buffers: 64, BufferBytes: wireBytes}

// end is one side of a ping-pong.
type end struct {
	tb    testing.TB
	d     *domain
	e     *endpoint
	send1 [1]fabric.Send
	out   [16]fabric.Completion
	buf   [1]fabric.Buf
}

func (p *pair) end() *end {
	p.stock(1, 32)
	return &end{tb: p.tb, d: p.d, e: p.b}
}

func (x *end) meet(peer *end) {
	to, err := x.d.Insert(peer.e.Name())
	if err != nil {
		x.tb.Fatal(err)
	}
	x.send1[0].To = to
}

func (x *end) send(size uint32) {
	x.send1[0].Len = size
	_, _ = x.e.Post(x.send1[:])
}

func (x *end) poll() bool {
	n, _ := x.e.Poll(x.out[:])
	for i := range x.out[:n] {
		x.buf[0] = x.out[i].Buf
		_, _ = x.e.Recv(x.buf[:])
	}
	return n > 0
}

func BenchmarkPollNothing(b *testing.B) {
	k := newPair(b, Options{}, smallConfig, fabric.EndpointConfig{})
	k.stock(0, 64)
	var out [64]fabric.Completion
	for b.Loop() {
		_, _ = k.b.Poll(out[:])
	}
}

func BenchmarkRegisterRegion(b *testing.B) {
	d := open(b, Options{}, smallConfig)
	defer d.Close()
	mem := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		r, _ := d.RegisterRegion(mem)
		_ = d.DeregisterRegion(r)
	}
}
