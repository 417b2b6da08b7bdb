//go:build linux && cgo

package ofi

import (
	"testing"

	"gobtl/fabric"
)

func benchPair(b *testing.B, source bool) (e fabric.Endpoint, self fabric.Addr) {
	b.Helper()
	d := open(b, "ofi/udp", fabric.DomainConfig{Buffers: 2048})
	e = openEndpoint(b, d, fabric.EndpointConfig{Source: source})
	return e, insert(b, d, e.Name())
}

// BenchmarkPollEmpty polls with posted receives, and measures the cost of one recvmsg that finds
// nothing.
func BenchmarkPollEmpty(b *testing.B) {
	e, _ := benchPair(b, false)
	mustRecv(b, e, seqBufs(0, 512)...)
	out := make([]fabric.Completion, 1)
	for b.Loop() {
		if n, err := e.Poll(out); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkPollIdle polls without posted receives, and measures the cost of the call into C and of
// the queues.
func BenchmarkPollIdle(b *testing.B) {
	e, _ := benchPair(b, false)
	out := make([]fabric.Completion, 1)
	for b.Loop() {
		if n, err := e.Poll(out); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkPost injects into a socket that is never read. After the socket's buffer is full, the
// kernel drops the datagrams. The benchmark therefore measures only the sender.
func BenchmarkPost(b *testing.B) {
	for _, bb := range []struct {
		name  string
		bytes uint32
	}{{"8B", 8}, {"1472B", 1472}} {
		b.Run(bb.name, func(b *testing.B) {
			e, self := benchPair(b, false)
			s := []fabric.Send{{To: self, Buf: 1000, Len: bb.bytes}}
			b.SetBytes(int64(bb.bytes))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Post(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSelf sends a datagram to its own endpoint, polls the datagram and posts the buffer
// again. The result is the total cost of one packet for sender and receiver.
func BenchmarkSelf(b *testing.B) {
	for _, bb := range []struct {
		name   string
		bytes  uint32
		source bool
	}{{"8B", 8, false}, {"8B-source", 8, true}, {"1472B", 1472, false}} {
		b.Run(bb.name, func(b *testing.B) {
			e, self := benchPair(b, bb.source)
			bufs := seqBufs(0, 64)
			mustRecv(b, e, bufs...)
			s := []fabric.Send{{To: self, Buf: 1000, Len: bb.bytes}}
			out := make([]fabric.Completion, 1)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Post(s); err != nil {
					b.Fatal(err)
				}
				if n, err := e.Poll(out); n != 1 || err != nil {
					b.Fatal(n, err)
				}
				bufs[0] = out[0].Buf
				if _, err := e.Recv(bufs[:1]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBurst sends a burst of full datagrams to its own endpoint, polls the burst and posts the
// buffers again. The result is the total cost of a stream for sender and receiver.
func BenchmarkBurst(b *testing.B) {
	const count = 44
	for _, name := range []string{udpName, offloadName} {
		b.Run(name, func(b *testing.B) {
			d := open(b, name, fabric.DomainConfig{Buffers: 2048})
			e := openEndpoint(b, d, fabric.EndpointConfig{})
			size := e.Caps().MTUBytes
			sends := make([]fabric.Send, count)
			for i := range sends {
				sends[i] = fabric.Send{To: insert(b, d, e.Name()), Buf: fabric.Buf(1000 + i), Len: uint32(size)}
			}
			bufs := seqBufs(0, count)
			mustRecv(b, e, bufs...)
			out := make([]fabric.Completion, count)
			b.ReportAllocs()
			b.SetBytes(int64(count * size))
			for b.Loop() {
				mustPost(b, e, sends...)
				for got := 0; got < count; {
					n, err := e.Poll(out)
					if err != nil {
						b.Fatal(err)
					}
					for i := range n {
						bufs[i] = out[i].Buf
					}
					mustRecv(b, e, bufs[:n]...)
					got += n
				}
			}
		})
	}
}
