package coll

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"gobtl/internal/testenv"
	"gobtl/pml"
)

// message is one that was sent, or a receive that waits for it.
type message struct {
	r    *pml.Request
	data []byte
	done bool // a send that has told its end
}

// network carries the messages of the ranks of a test in any order that keeps that of each pair.
type network struct {
	random *rand.Rand
	sent   map[[2]int][]*message // from, to
	posted map[[2]int][]*message
	later  []func() // what may happen next
}

type port struct {
	*network
	rank int
}

func (p port) Send(r *pml.Request, to int, data []byte) error {
	m := &message{r: r, data: data}
	pair := [2]int{p.rank, to}
	p.sent[pair] = append(p.sent[pair], m)
	if p.random.IntN(2) == 0 { // eager: its memory is free before it is received
		m.data, m.done = bytes.Clone(data), true
		if p.random.IntN(2) == 0 {
			r.OnDone(r)
		} else {
			p.later = append(p.later, func() { r.OnDone(r) })
		}
	}
	p.later = append(p.later, func() { p.match(pair) })
	return nil
}

func (p port) Recv(r *pml.Request, from int, data []byte) error {
	pair := [2]int{from, p.rank}
	p.posted[pair] = append(p.posted[pair], &message{r: r, data: data})
	p.later = append(p.later, func() { p.match(pair) })
	return nil
}

func (p port) Cancel(*pml.Request) bool { return false }

func (p port) Skip(int) { panic("all sizes are right") }

// match gives the first message of a pair to the first receive.
func (n *network) match(pair [2]int) {
	if len(n.sent[pair]) == 0 || len(n.posted[pair]) == 0 {
		return
	}
	m, r := n.sent[pair][0], n.posted[pair][0]
	n.sent[pair], n.posted[pair] = n.sent[pair][1:], n.posted[pair][1:]
	if len(m.data) != len(r.data) {
		panic(fmt.Sprintf("%v: %d bytes into %d", pair, len(m.data), len(r.data)))
	}
	copy(r.data, m.data)
	r.r.OnDone(r.r)
	if !m.done {
		n.later = append(n.later, func() { m.r.OnDone(m.r) })
	}
}

// run carries out the schedules of all ranks, in any order, and reports the ranks that have not
// reached the end.
func (n *network) run(all []*Schedule) error {
	ended := make([]bool, len(all))
	for rank, s := range all {
		n.later = append(n.later, func() { s.Start(port{n, rank}, func(error) { ended[rank] = true }) })
	}
	for len(n.later) > 0 {
		i := n.random.IntN(len(n.later))
		next := n.later[i]
		n.later[i] = n.later[len(n.later)-1]
		n.later = n.later[:len(n.later)-1]
		next()
	}
	for rank, ok := range ended {
		if !ok {
			return fmt.Errorf("rank %d waits for ever", rank)
		}
	}
	for pair, left := range n.sent {
		if len(left)+len(n.posted[pair]) > 0 {
			return fmt.Errorf("%v: %d messages are left, %d receives", pair, len(left), len(n.posted[pair]))
		}
	}
	return nil
}

// valueBytes is the size of the values of these tests: functions x -> ax+b, which are combined by
// one after the other, for which the order matters.
const valueBytes = 8

func compose(acc, x []byte, xFirst bool) {
	u := binary.LittleEndian
	for ; len(acc) > 0; acc, x = acc[valueBytes:], x[valueBytes:] {
		p, q := acc, x
		if xFirst {
			p, q = x, acc
		}
		a, b, c, d := u.Uint32(p), u.Uint32(p[4:]), u.Uint32(q), u.Uint32(q[4:])
		u.PutUint32(acc, a*c)
		u.PutUint32(acc[4:], a*d+b)
	}
}

// add is the same for numbers, where it does not.
func add(acc, x []byte, _ bool) {
	u := binary.LittleEndian
	for ; len(acc) > 0; acc, x = acc[valueBytes:], x[valueBytes:] {
		u.PutUint64(acc, u.Uint64(acc)+u.Uint64(x))
	}
}

// program is one operation of all ranks: what each has, and what each must have in the end.
type program struct {
	name string
	fold Fold
	in   [][]byte
	out  [][]byte
	want [][]byte
	plan func(s *Schedule, rank int)
}

// draw draws a program for so many ranks.
func draw(random *rand.Rand, size int) *program {
	values := []int{0, 1, 2, 5, 100, 1000, 3000, 9000}[random.IntN(8)]
	root, commutes := random.IntN(size), random.IntN(2) == 0
	p := &program{fold: compose, in: make([][]byte, size), out: make([][]byte, size)}
	if commutes {
		p.fold = add
	}
	p.want = make([][]byte, size)
	parts, sum := make(Parts, size), 0
	for i := range parts {
		if parts[i] = valueBytes * values; size*values > 0 && random.IntN(3) == 0 {
			parts[i] = valueBytes * random.IntN(values+1)
		}
		sum += parts[i]
	}
	fill := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	n := valueBytes * values
	for i := range size {
		p.in[i], p.out[i] = fill(n), fill(n)
		p.want[i] = bytes.Clone(p.out[i])
	}
	prefix := func(to int) []byte {
		acc := bytes.Clone(p.in[0])
		for i := 1; i < to; i++ {
			p.fold(acc, p.in[i], false)
		}
		return acc
	}
	switch random.IntN(11) {
	case 0:
		p.name, p.plan = "barrier", func(s *Schedule, _ int) { s.Barrier() }
	case 1:
		for i := range size {
			p.want[i] = bytes.Clone(p.out[root])
		}
		p.name = "bcast"
		p.plan = func(s *Schedule, rank int) { s.Bcast(p.out[rank], valueBytes, root) }
	case 2:
		p.want[root] = prefix(size)
		p.name = "reduce"
		p.plan = func(s *Schedule, rank int) { s.Reduce(p.in[rank], p.out[rank], root) }
	case 3:
		all, inPlace := prefix(size), random.IntN(3) == 0
		for i := range size {
			if p.want[i] = all; inPlace {
				p.out[i] = p.in[i]
			}
		}
		p.name = "allreduce"
		p.plan = func(s *Schedule, rank int) {
			s.Allreduce(p.in[rank], p.out[rank], valueBytes, commutes)
		}
	case 4:
		for i := range size {
			p.want[i] = prefix(i + 1)
		}
		p.name, p.plan = "scan", func(s *Schedule, rank int) { s.Scan(p.in[rank], p.out[rank]) }
	case 5:
		for i := 1; i < size; i++ {
			p.want[i] = prefix(i)
		}
		p.name = "exscan"
		p.plan = func(s *Schedule, rank int) { s.Exscan(p.in[rank], p.out[rank]) }
	default:
		p.drawParts(random, fill, parts, sum, root, commutes)
	}
	p.name = fmt.Sprintf("%s of %d ranks, root %d, %d bytes, commutes %v, parts %v", p.name, size,
		root, n, commutes, parts)
	return p
}

// drawParts draws a program in which each rank has a part of something.
func (p *program) drawParts(random *rand.Rand, fill func(int) []byte, parts Parts, sum, root int,
	commutes bool,
) {
	size := len(parts)
	kind := random.IntN(5)
	whole := fill(sum)
	if kind == 3 {
		for i := range size {
			p.in[i] = fill(sum)
		}
		whole = bytes.Clone(p.in[0])
		for i := 1; i < size; i++ {
			p.fold(whole, p.in[i], false)
		}
	}
	for i := range size {
		mine := bytes.Clone(new(Schedule).place(0, whole, parts).of(i))
		switch kind {
		case 0, 1: // gather, allgather
			p.in[i], p.out[i], p.want[i] = mine, fill(sum), whole
			if kind == 0 && i != root {
				p.want[i] = bytes.Clone(p.out[i])
			}
		case 2, 3: // scatter, reduce-scatter
			p.out[i], p.want[i] = fill(parts[i]), mine
		}
	}
	switch kind {
	case 0:
		p.name = "gather"
		p.plan = func(s *Schedule, rank int) { s.Gather(p.in[rank], p.out[rank], parts, root) }
	case 1:
		p.name = "allgather"
		p.plan = func(s *Schedule, rank int) { s.Allgather(p.in[rank], p.out[rank], parts) }
	case 2:
		p.in[root] = whole
		p.name = "scatter"
		p.plan = func(s *Schedule, rank int) { s.Scatter(p.in[rank], p.out[rank], parts, root) }
	case 3:
		p.name = "reduce-scatter"
		p.plan = func(s *Schedule, rank int) {
			s.ReduceScatter(p.in[rank], p.out[rank], parts, commutes)
		}
	case 4:
		p.drawAlltoall(random, fill, parts)
	}
}

func (p *program) drawAlltoall(random *rand.Rand, fill func(int) []byte, parts Parts) {
	size := len(parts)
	from, to := make([]Parts, size), make([]Parts, size)
	for i := range size {
		from[i], to[i] = make(Parts, size), make(Parts, size)
	}
	for i := range size {
		for j := range size {
			n := valueBytes * random.IntN(parts[j]/valueBytes+1)
			from[i][j], to[j][i] = n, n
		}
	}
	for i := range size {
		p.in[i], p.out[i] = fill(from[i].Sum()), fill(to[i].Sum())
		p.want[i] = nil
	}
	for i := range size {
		for j := range size {
			p.want[i] = append(p.want[i], new(Schedule).place(0, p.in[j], from[j]).of(i)...)
		}
	}
	p.name = "alltoall"
	p.plan = func(s *Schedule, rank int) { s.Alltoall(p.in[rank], from[rank], p.out[rank], to[rank]) }
}

// Random operations among 1 to 20 ranks, whose messages come in any order, have the results that a
// loop over the ranks has, and leave nothing behind. Schedules are used again and again.
func TestModel(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t, 0)
	random := rand.New(rand.NewPCG(seed, 0))
	rounds := 500
	if testenv.Race || testing.Short() {
		rounds = 100
	}
	schedules := make([]*Schedule, 20)
	for i := range schedules {
		schedules[i] = new(Schedule)
	}
	for range rounds {
		size := 1 + random.IntN(random.IntN(20)+1)
		p := draw(random, size)
		for rank, s := range schedules[:size] {
			s.Reset(rank, size, p.fold)
			p.plan(s, rank)
		}
		n := &network{
			random: random, sent: make(map[[2]int][]*message), posted: make(map[[2]int][]*message),
		}
		if err := n.run(schedules[:size]); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		for rank := range size {
			if !bytes.Equal(p.out[rank], p.want[rank]) {
				t.Fatalf("%s: rank %d has %d bytes that are not as they must be", p.name, rank,
					len(p.out[rank]))
			}
		}
	}
}

// Large Allreduces in place have the results of a loop over the ranks.
func TestAllreduceInPlace(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 0))
	for size := 1; size <= 9; size++ {
		data, schedules := make([][]byte, size), make([]*Schedule, size)
		want := make([]byte, allreduceLarge)
		for rank := range size {
			data[rank] = make([]byte, allreduceLarge)
			for i := range data[rank] {
				data[rank][i] = byte(random.Uint32())
			}
			add(want, data[rank], false)
			schedules[rank] = new(Schedule)
			schedules[rank].Reset(rank, size, add)
			schedules[rank].Allreduce(data[rank], data[rank], valueBytes, true)
		}
		n := &network{
			random: random, sent: make(map[[2]int][]*message), posted: make(map[[2]int][]*message),
		}
		if err := n.run(schedules); err != nil {
			t.Fatalf("%d ranks: %v", size, err)
		}
		for rank := range size {
			if !bytes.Equal(data[rank], want) {
				t.Fatalf("%d ranks: rank %d has another sum", size, rank)
			}
		}
	}
}

// No rank sends more messages, or bytes, than the bound of the algorithm.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3, 8, 64, 100, 512, 4096} {
		log := bits.Len(uint(size - 1))
		for _, n := range []int{8, 1 << 20} {
			in, out := make([]byte, n), make([]byte, n)
			rounds := 2 * size // of allreduce: halving where the ranks are 2^k, else a ring
			if size&(size-1) == 0 {
				rounds = 2 * log
			}
			share := 2 * (n/size + 8*size) // of a ring's two rounds, with what is rounded up
			for _, is := range []struct {
				name            string
				messages, bytes int // at most
				plan            func(s *Schedule)
			}{
				{"barrier", log, 0, (*Schedule).Barrier},
				{"small bcast", log, log * 8, func(s *Schedule) { s.Bcast(in[:8], 8, 0) }},
				{"bcast", log + size, 2*n + share, func(s *Schedule) {
					if size > 2 {
						s.Bcast(in, 8, 1)
					}
				}},
				{"small allreduce", log + 1, (log + 1) * 8, func(s *Schedule) {
					s.Allreduce(in[:8], out[:8], 8, true)
				}},
				{"allreduce", rounds, 2*n + share, func(s *Schedule) { s.Allreduce(in, out, 8, true) }},
				{"reduce", 2, 2 * n, func(s *Schedule) { s.Reduce(in, out, size-1) }},
				{"scan", log, log * n, func(s *Schedule) { s.Scan(in, out) }},
			} {
				for _, rank := range []int{0, 1, size / 2, size - 1} {
					var s Schedule
					s.Reset(rank, size, add)
					is.plan(&s)
					if m, b := s.Steps(); m > is.messages || b > is.bytes {
						t.Errorf("%s of %d bytes, rank %d of %d: %d messages, %d bytes; want %d, %d at most",
							is.name, n, rank, size, m, b, is.messages, is.bytes)
					}
				}
			}
		}
	}
}
