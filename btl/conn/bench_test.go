package conn_test

import (
	"fmt"
	"io"
	"net"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric"
	"gobtl/fabric/shm"
	"gobtl/internal/testenv"
)

// overTCP is a pair of ends of a TCP connection by the loopback device.
func overTCP(tb testing.TB) (c1, c2 net.Conn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	if c1, err = net.Dial("tcp", l.Addr().String()); err != nil {
		tb.Fatal(err)
	}
	if c2, err = l.Accept(); err != nil {
		tb.Fatal(err)
	}
	return c1, c2
}

// kinds runs a benchmark over TCP, for comparison, and over all networks.
func kinds(b *testing.B, fn func(b *testing.B, c1, c2 net.Conn)) {
	b.Run("tcp", func(b *testing.B) {
		c1, c2 := overTCP(b)
		defer c2.Close()
		defer c1.Close()
		fn(b, c1, c2)
	})
	for _, provider := range []string{"udp", shm.ProviderName} {
		b.Run(provider, func(b *testing.B) {
			with := registered(provider)
			if _, _, err := with(fabric.DomainConfig{}); err != nil {
				testenv.Missing(b, "%s: %v", provider, err)
			}
			c1, c2 := newPair(b, with, conn.Config{}, btl.Config{}).dial(b)
			fn(b, c1, c2)
		})
	}
}

// BenchmarkStream is one direction: Writes of a size, read by 64 KiB at most.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			kinds(b, func(b *testing.B, c1, c2 net.Conn) {
				read := make(chan error, 1)
				go func() {
					_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard},
						io.LimitReader(c2, int64(size)*int64(b.N)), make([]byte, 64<<10))
					read <- err
				}()
				data := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if _, err := c1.Write(data); err != nil {
						b.Fatal(err)
					}
				}
				if err := <-read; err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkRoundTrip is a question and its answer, of 64 bytes each.
func BenchmarkRoundTrip(b *testing.B) {
	kinds(b, func(b *testing.B, c1, c2 net.Conn) {
		var question, answer [64]byte
		done := make(chan error, 1)
		go func() {
			for range b.N {
				if _, err := io.ReadFull(c2, answer[:]); err != nil {
					done <- err
					return
				}
				if _, err := c2.Write(answer[:]); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			if _, err := c1.Write(question[:]); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c1, question[:]); err != nil {
				b.Fatal(err)
			}
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	})
}
