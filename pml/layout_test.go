package pml

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"gobtl/btl"
	"gobtl/internal/testenv"
)

// comb has blocks of bytes with gaps between them.
type comb struct {
	mem         []byte
	count       int
	block, step int
}

func (c comb) Bytes() int { return c.count * c.block }

func (c comb) Run(at int) []byte {
	begin := at/c.block*c.step + at%c.block
	return c.mem[begin : at/c.block*c.step+c.block]
}

func (c comb) Gather(to []byte, at int) {
	for len(to) > 0 {
		n := copy(to, c.Run(at))
		to, at = to[n:], at+n
	}
}

func (c comb) Scatter(from []byte, at int) {
	for len(from) > 0 {
		n := copy(c.Run(at), from)
		from, at = from[n:], at+n
	}
}

// Messages from layouts and into layouts have the bytes of the blocks in their order, of all sizes,
// whole and truncated; nothing is written between the blocks, and the next message finds nothing of
// the one before.
func TestLayouts(t *testing.T) {
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 5))
	step, a, b, to := memPair(t)
	blocks := []int{1, 8, 100, runBytesMin - 1, runBytesMin, 3*runBytesMin + 1, 1 << 20, 3 << 20}
	draw := func(bytes int) comb {
		c := comb{block: blocks[random.IntN(len(blocks))]}
		c.count = max(1, bytes/c.block)
		c.step = c.block + random.IntN(20)
		c.mem = make([]byte, c.count*c.step)
		for i := range c.mem {
			c.mem[i] = byte(random.Uint32())
		}
		return c
	}
	for round := range 100 {
		size := []int{1, 100, 5000, 60_000, 70_000, 300_000, 5 << 20}[random.IntN(7)]
		out, in := draw(size), draw(size+random.IntN(3)*size/2)
		s, r := Request{Layout: out}, Request{Layout: in}
		want := make([]byte, out.Bytes())
		out.Gather(want, 0)
		var data, room []byte
		switch random.IntN(4) {
		case 0:
			s.Layout, data = nil, want
		case 1:
			r.Layout, room = nil, make([]byte, in.Bytes())
			in.Gather(room, 0)
		}
		expect := comb{bytes.Clone(in.mem), in.count, in.block, in.step}
		n := min(len(want), in.Bytes())
		expect.Scatter(want[:n], 0)
		late := random.IntN(2) == 0
		begin := func() {
			if err := b.Recv(step(), &r, nil, uint64(round), exactly, room); err != nil {
				t.Fatal(err)
			}
		}
		if !late {
			begin()
		}
		if err := a.Send(step(), &s, to, uint64(round), data, Standard); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < 5 || !r.Done() || !s.Done(); i++ {
			if step(); i == 4 && late {
				begin()
			}
			if i > 100_000 {
				t.Fatal("it does not end")
			}
		}
		if r.Layout == nil {
			in.Scatter(room, 0)
		}
		truncated := errors.Is(r.Err(), ErrTruncated)
		if r.Err() != nil && !truncated || truncated != (len(want) > in.Bytes()) || s.Err() != nil ||
			r.Len() != n || r.Size() != uint64(len(want)) || s.Len() != len(want) {
			t.Fatalf("round %d: %d bytes into %d: %v, %d of %d", round, len(want), in.Bytes(), r.Err(),
				r.Len(), r.Size())
		}
		if !bytes.Equal(in.mem, expect.mem) {
			t.Fatalf("round %d: %d x %d into %d x %d bytes: not what was sent", round, out.count,
				out.block, in.count, in.block)
		}
	}
	if err := errors.Join(a.CheckIdle(), b.CheckIdle()); err != nil {
		t.Error(err)
	}
}

// Large messages of short blocks allocate no more than others, once there is memory for one.
func TestLayoutsAllocate(t *testing.T) {
	step, a, b, to := memPair(t)
	const size = 1 << 17
	out := &comb{make([]byte, 2*size), size / 8, 8, 16}
	in := &comb{make([]byte, 2*size), size / 8, 8, 16}
	measure := func(s, r *Request, data, room []byte) float64 {
		once := func() {
			if err := b.Recv(step(), r, nil, 0, exactly, room); err != nil {
				t.Fatal(err)
			}
			if err := a.Send(step(), s, to, 0, data, Standard); err != nil {
				t.Fatal(err)
			}
			for !r.Done() || !s.Done() {
				step()
			}
		}
		for range 300 {
			once()
		}
		return testing.AllocsPerRun(100, once)
	}
	plain := measure(&Request{}, &Request{}, make([]byte, size), make([]byte, size))
	if n := measure(&Request{Layout: out}, &Request{Layout: in}, nil, nil); n > plain {
		t.Errorf("%v allocations, of a message in one piece %v", n, plain)
	}
}

// What many messages at once have needed is not kept for ever.
func TestMemoryKept(t *testing.T) {
	var y memory
	for _, size := range []int{1, 4096, 64 << 10, pooledMax - 1, pooledMax, pooledMax + 1} {
		var taken [][]byte
		for range 2 * keptMax {
			taken = append(taken, y.take(size))
		}
		for _, b := range taken {
			y.give(b)
		}
	}
	for class, idle := range y.buffers {
		if n := len(idle); n > keptMax || n<<class > keptBytesMax {
			t.Errorf("%d buffers of %d bytes are kept", n, 1<<class)
		}
	}
	if len(y.buffers[12]) != keptMax || len(y.buffers[21]) == 0 {
		t.Error("nothing is kept")
	}
}

// headed is a comb behind one long run.
type headed struct {
	head []byte
	comb
}

func (h headed) Bytes() int { return len(h.head) + h.comb.Bytes() }

func (h headed) Run(at int) []byte {
	if at < len(h.head) {
		return h.head[at:]
	}
	return h.comb.Run(at - len(h.head))
}

func (h headed) Gather(to []byte, at int) {
	for len(to) > 0 {
		n := copy(to, h.Run(at))
		to, at = to[n:], at+n
	}
}

// A message is not put in thousands of puts because its first runs alone are long. The rest goes in
// packets, and the receiver counts what was put before.
func TestLongRunFirst(t *testing.T) {
	step, a, b, to := memPair(t)
	for _, long := range []int{5, 10, 100} {
		head := make([]byte, long*runBytesMin)
		h := headed{head, comb{make([]byte, 1<<18), 1 << 14, 8, 16}}
		for i := range h.mem {
			h.mem[i] = byte(i * i >> 3)
		}
		for i := range head {
			head[i] = byte(i * i >> 5)
		}
		want := make([]byte, h.Bytes())
		h.Gather(want, 0)
		passes := func(l Layout, data []byte) (n int) {
			s, r, room := Request{Layout: l}, Request{}, make([]byte, len(want))
			err := b.Recv(step(), &r, nil, 0, exactly, room)
			if err = errors.Join(err, a.Send(step(), &s, to, 0, data, Standard)); err != nil {
				t.Fatal(err)
			}
			for ; !r.Done() || !s.Done(); n++ {
				if step(); n > 100_000 {
					t.Fatal("it does not end")
				}
			}
			if r.Err() != nil || !bytes.Equal(room, want) {
				t.Fatalf("not what was sent: %v", r.Err())
			}
			return n
		}
		before := a.Stats().SentPacked
		if plain, n := passes(nil, want), passes(h, nil); n > 2*plain+100 {
			t.Errorf("%d passes, of a message in one piece %d", n, plain)
		}
		packed := a.Stats().SentPacked - before
		if all := packed == uint64(len(want)); all != (long < btl.PiecesMax) || packed < 1<<17-100 {
			t.Errorf("%d of %d bytes in packets", packed, len(want))
		}
	}
	if err := errors.Join(a.CheckIdle(), b.CheckIdle()); err != nil {
		t.Error(err)
	}
}
