//go:build linux

package udp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"gobtl/fabric"
)

// TestOversizeRuns receives runs from two senders in turn, with some datagrams larger than the
// buffers. Each datagram must arrive in order, truncated at the end of its buffer, with its whole
// length and its source. Small numbers of buffers and completions must not matter.
func TestOversizeRuns(t *testing.T) {
	const roomBytes, rxBuffers = 1000, 40
	from := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64, BufferBytes: 9000},
		fabric.EndpointConfig{})
	to := newPair(t, Options{}, fabric.DomainConfig{Buffers: rxBuffers, BufferBytes: roomBytes},
		fabric.EndpointConfig{Source: true})
	addr, err := from.d.Insert(to.b.Name())
	if err != nil {
		t.Fatal(err)
	}
	senders := []*endpoint{from.a, from.b}
	var sources [2]fabric.Addr
	for i, e := range senders {
		if sources[i], err = to.d.Insert(e.Name()); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	free := make([]fabric.Buf, rxBuffers)
	for i := range free {
		free[i] = fabric.Buf(i)
	}
	sizes := []int{0, 1, 500, roomBytes - 1, roomBytes, roomBytes + 1, 1400, 3000, 9000}
	type datagram struct {
		from fabric.Addr
		data []byte
	}
	for round := range 300 {
		var want []datagram
		for range 1 + rng.IntN(6) {
			who, size := rng.IntN(2), sizes[rng.IntN(len(sizes))]
			if rng.IntN(3) == 0 {
				size = roomBytes
			}
			// At most as many datagrams are sent as a receive buffer of 208 KiB holds without a
			// Poll.
			count := 1 + rng.IntN(min(20, 16<<10/(size+1)+1))
			sends := make([]fabric.Send, count)
			for i := range sends {
				n := size
				if i == count-1 {
					n = rng.IntN(size + 1)
				}
				data := from.d.buffers.bytes(fabric.Buf(i))[:n]
				for j := range data {
					data[j] = byte(rng.Uint32())
				}
				sends[i] = fabric.Send{To: addr, Buf: fabric.Buf(i), Len: uint32(n)}
				want = append(want, datagram{sources[who], bytes.Clone(data)})
			}
			if n, err := senders[who].Post(sends); n != count || err != nil {
				t.Fatalf("Post: %d of %d, %v", n, count, err)
			}
		}
		for polls := 0; len(want) > 0; polls++ {
			if polls == 1<<16 {
				t.Fatalf("round %d: %d datagrams are missing", round, len(want))
			}
			if rng.IntN(3) == 0 {
				k := rng.IntN(len(free) + 1)
				if _, err := to.b.Recv(free[:k]); err != nil {
					t.Fatal(err)
				}
				free = free[k:]
			}
			var out [30]fabric.Completion
			n, err := to.b.Poll(out[:rng.IntN(len(out))])
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range out[:n] {
				d := want[0]
				want = want[1:]
				got := to.d.buffers.bytes(c.Buf)[:min(int(c.Len), roomBytes)]
				fits := d.data[:min(len(d.data), roomBytes)]
				if int(c.Len) != len(d.data) || c.From != d.from || !bytes.Equal(got, fits) {
					t.Fatalf("round %d: %+v, want %d bytes from %x", round, c, len(d.data), d.from)
				}
				free = append(free, c.Buf)
			}
		}
	}
	if lost := to.b.sock.drops(); lost > 0 {
		t.Errorf("%d datagrams found no room", lost)
	}
}
