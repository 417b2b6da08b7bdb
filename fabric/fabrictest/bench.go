package fabrictest

import (
	"cmp"
	"fmt"
	"testing"
)

// Bench measures the time of a provider's calls with Go benchmarks. One goroutine acts as both the
// sender and the receiver. The benchmarks Exchange and ExchangeBatch measure the one-way time from
// a send to the receipt of the datagram.
func Bench(b *testing.B, f Fixture) {
	f.Patience = cmp.Or(f.Patience, defaultPatience)
	b.Run("PollEmpty", func(b *testing.B) {
		l := newLoop(b, &f)
		b.ReportAllocs()
		for b.Loop() {
			if n, err := l.rx.ep.Poll(l.out[:]); n != 0 || err != nil {
				b.Fatalf("Poll: %d, %v", n, err)
			}
		}
	})
	mtu := newPort(b, &f).caps.MTUBytes
	for _, size := range []int{8, mtu} {
		b.Run(fmt.Sprintf("Post/%dB", size), func(b *testing.B) { benchPost(b, &f, size) })
		b.Run(fmt.Sprintf("Exchange/%dB", size), func(b *testing.B) { benchExchange(b, &f, 1, size) })
		b.Run(fmt.Sprintf("ExchangeBatch/%dB", size), func(b *testing.B) {
			benchExchange(b, &f, batchMax, size)
		})
	}
}

// benchPost measures only Post.
func benchPost(b *testing.B, f *Fixture, size int) {
	l := newLoop(b, f)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	posted := 0
	for b.Loop() {
		if posted == l.batch {
			b.StopTimer()
			l.poll(l.rx, posted)
			l.exchange(0, size)
			posted = 0
			b.StartTimer()
		}
		l.post(1, size)
		posted++
	}
	b.StopTimer()
	l.poll(l.rx, posted)
}

// benchExchange measures the time from the Post of a batch of datagrams to the completions of these
// datagrams at the receiver.
func benchExchange(b *testing.B, f *Fixture, batch, size int) {
	l := newLoop(b, f)
	batch = min(batch, l.batch)
	b.SetBytes(int64(batch * size))
	b.ReportAllocs()
	for b.Loop() {
		l.exchange(batch, size)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch), "ns/datagram")
}
