package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gobtl/internal/testenv"
	"gobtl/mpi"
)

// Random programs: in each round ranks send each other messages, receive them in all the ways there
// are, take part in collective operations and work in each other's windows. All ranks draw the
// round from one seed, so each knows what must come, by a naive model of MPI's rules.

// mail is a message of a round; its number is that among those of its sender to its receiver.
type mail struct {
	from, to, tag, size, number int
}

// first is the value that a message begins with.
func (m mail) first(round int) int64 {
	return int64(round)<<32 | int64(m.from<<24|m.to<<16|m.number)
}

// play is a rank in a random program.
type play struct {
	c     *mpi.Comm
	win   *mpi.Window[int64]
	cells []int64
	seed  uint64
	own   *rand.Rand // what no other rank has to know
	sum   []int64    // what the cells of all ranks must have got in all
	loose []*mpi.Request

	counter *mpi.Window[int64] // of one cell of each rank, which is tally
	tally   []int64
	wild    bool // the latest message that was waited for may come from anybody
}

// begin makes a rank ready to play in a communicator.
func begin(ctx context.Context, c *mpi.Comm, seed uint64) (*play, error) {
	p := &play{c: c, seed: seed, cells: make([]int64, c.Size()+1), sum: make([]int64, c.Size())}
	p.own = rand.New(rand.NewPCG(seed, uint64(c.Rank())))
	var err error
	p.win, err = mpi.NewWindow(ctx, c, p.cells)
	return p, err
}

// round plays a round.
func (p *play) round(ctx context.Context, round int) error {
	random := rand.New(rand.NewPCG(p.seed, uint64(round)))
	all := p.draw(random)
	var mine []mail
	for _, m := range all {
		if m.to == p.c.Rank() {
			mine = append(mine, m)
		}
	}
	p.loose = nil
	sum, scan, before := []int64{0}, []int64{0}, []int64{int64(round + p.c.Rank())}
	var op [2]mpi.Request
	err := errors.Join(p.start(mpi.Iallreduce(&op[0], p.c, before, sum, mpi.Sum[int64]()), &op[0]),
		p.start(mpi.Iscan(&op[1], p.c, before, scan, mpi.Max[int64]()), &op[1]))
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.from == p.c.Rank() {
			if err := p.send(m, round, p.own.IntN(3) == 0); err != nil {
				return err
			}
		}
	}
	if err := p.cancel(ctx); err != nil {
		return err
	}
	if p.own.IntN(2) == 0 {
		err = p.oneByOne(ctx, round, mine)
	} else {
		err = p.batch(ctx, round, mine)
	}
	if err = errors.Join(err, p.windows(ctx, random)); err != nil {
		return err
	}
	if err := mpi.WaitAll(ctx, nil, p.loose...); err != nil {
		return err
	}
	n := p.c.Size()
	if sum[0] != int64(n*round+n*(n-1)/2) || scan[0] != before[0] {
		return fmt.Errorf("the sum is %d, the largest %d", sum[0], scan[0])
	}
	return nil
}

// start takes note of a request that was begun.
func (p *play) start(err error, r *mpi.Request) error {
	if err == nil {
		p.loose = append(p.loose, r)
	}
	return err
}

// draw draws the messages of a round.
func (p *play) draw(random *rand.Rand) []mail {
	n := p.c.Size()
	all, count := make([]mail, 5*n), make(map[[2]int]int)
	for i := range all {
		m := mail{from: random.IntN(n), to: random.IntN(n), tag: random.IntN(3)}
		m.size = []int{1, 7, 300, 9000, 30_000}[random.IntN(5)]
		m.number = count[[2]int{m.from, m.to}]
		count[[2]int{m.from, m.to}]++
		all[i] = m
	}
	return all
}

// send begins a send: of a slice, or of every second value of one.
func (p *play) send(m mail, round int, strided bool) error {
	r := new(mpi.Request)
	step := 1
	if strided {
		step = 2
	}
	data := make([]int64, m.size*step)
	for i := range m.size {
		data[i*step] = m.first(round) + int64(i)
	}
	if !strided && p.own.IntN(2) == 0 {
		return p.start(mpi.IsendSync(r, p.c, data, m.to, m.tag), r)
	}
	l, err := mpi.Strided(data, m.size, 1, step)
	if err != nil {
		return err
	}
	return p.start(l.Isend(r, p.c, m.to, m.tag), r)
}

// cancel cancels a receive that nothing is for.
func (p *play) cancel(ctx context.Context) error {
	var r mpi.Request
	if err := mpi.Irecv(&r, p.c, make([]int64, 1), mpi.AnySource, 9); err != nil {
		return err
	}
	ok := r.Cancel()
	if _, err := r.Wait(ctx); !ok || !errors.Is(err, mpi.ErrCancelled) {
		return fmt.Errorf("cancelled: %v, %w", ok, err)
	}
	return nil
}

// oneByOne receives one message after the other: each time the criteria are those of one that must
// come, with wildcards; what comes must be the first of its sender that they want.
func (p *play) oneByOne(ctx context.Context, round int, due []mail) error {
	room := make([]int64, 40_000)
	for len(due) > 0 {
		m := due[p.own.IntN(len(due))]
		from, tag := m.from, m.tag
		if p.own.IntN(2) == 0 {
			from = mpi.AnySource
		}
		if p.own.IntN(2) == 0 {
			tag = mpi.AnyTag
		}
		var s mpi.Status
		var err error
		p.wild = from == mpi.AnySource
		switch p.own.IntN(3) {
		case 0:
			s, err = mpi.Recv(ctx, p.c, room, from, tag)
		case 1: // what was probed is received by its own criteria: it must be that
			if s, err = mpi.Probe(ctx, p.c, from, tag); err == nil {
				s, err = mpi.Recv(ctx, p.c, room[:s.Count/8], s.Source, s.Tag)
			}
		default:
			var found *mpi.Message
			if found, _, err = mpi.Mprobe(ctx, p.c, from, tag); err == nil {
				s, err = mpi.Mrecv(ctx, found, room)
			}
		}
		if p.wild = false; err != nil {
			return err
		}
		at := slices.IndexFunc(due, func(m mail) bool {
			return m.from == s.Source && (tag == mpi.AnyTag || m.tag == tag)
		})
		if at < 0 || from != mpi.AnySource && s.Source != from {
			return fmt.Errorf("from %d, tag %d: %+v, which nobody has sent", from, tag, s)
		}
		if err := due[at].is(round, s, room); err != nil {
			return err
		}
		due = slices.Delete(due, at, at+1)
	}
	return nil
}

// is says whether a message is what was received.
func (m mail) is(round int, s mpi.Status, room []int64) error {
	last := m.first(round) + int64(m.size-1)
	if s != (mpi.Status{Source: m.from, Tag: m.tag, Count: m.size}) || room[0] != m.first(round) ||
		room[m.size-1] != last {
		return fmt.Errorf("round %d: %+v is %+v, %x to %x", round, m, s, room[0], room[m.size-1])
	}
	return nil
}

// batch posts receives for all messages at once: those that want the least first, so that each gets
// one. Of each sender messages go, in their order, each to the first receive that wants it.
func (p *play) batch(ctx context.Context, round int, due []mail) error {
	kind := make([]int, len(due)) // exact, any tag, any
	for i := range kind {
		kind[i] = p.own.IntN(3)
	}
	slices.Sort(kind)
	var posted []posting
	for i, k := range p.own.Perm(len(due)) {
		w := posting{from: due[k].from, tag: due[k].tag, room: make([]int64, 40_000)}
		if kind[i] > 0 {
			w.tag = mpi.AnyTag
		}
		if kind[i] > 1 {
			w.from = mpi.AnySource
		}
		w.r = new(mpi.Request)
		if err := p.start(mpi.Irecv(w.r, p.c, w.room, w.from, w.tag), w.r); err != nil {
			return err
		}
		posted = append(posted, w)
	}
	next := make(map[int]int) // of what any takes, by sender: where to look on
	for i, w := range posted {
		p.wild = w.from == mpi.AnySource
		s, err := w.r.Wait(ctx)
		if p.wild = false; err != nil {
			return err
		}
		k := next[s.Source]
		if w.from != mpi.AnySource {
			k = slices.IndexFunc(due, func(m mail) bool { return first(due, posted, m) == i })
		} else {
			for k < len(due) && (due[k].from != s.Source || first(due, posted, due[k]) >= 0) {
				k++
			}
			next[s.Source] = k + 1
		}
		if k < 0 || k >= len(due) {
			return fmt.Errorf("%+v is for no receive from %d, tag %d", s, w.from, w.tag)
		}
		if err := due[k].is(round, s, w.room); err != nil {
			return err
		}
	}
	return nil
}

// posting is a receive of a batch.
type posting struct {
	from, tag int
	room      []int64
	r         *mpi.Request
}

// first is the receive from one sender that a message goes to, by giving all of that sender out in
// order; -1 is one from any.
func first(due []mail, posted []posting, m mail) int {
	taken := make([]bool, len(posted))
	for _, d := range due {
		if d.from != m.from {
			continue
		}
		at := slices.IndexFunc(posted, func(w posting) bool {
			return w.from == d.from && (w.tag == mpi.AnyTag || w.tag == d.tag)
		})
		for at >= 0 && at < len(posted) && (taken[at] || posted[at].from != d.from ||
			posted[at].tag != mpi.AnyTag && posted[at].tag != d.tag) {
			at++
		}
		if at == len(posted) {
			at = -1
		}
		if at >= 0 {
			taken[at] = true
		}
		if d == m {
			return at
		}
	}
	return -1
}

// windows puts into own places of others, adds to what all add to, and looks at the result.
func (p *play) windows(ctx context.Context, random *rand.Rand) error {
	n, rank := p.c.Size(), p.c.Rank()
	put := make([]int, n) // to whom each rank puts
	var mine [3]int64
	for from := range n {
		put[from] = random.IntN(n)
		value, to := random.Int64N(100), random.IntN(n)
		if p.sum[to] += value; from == rank {
			mine = [3]int64{value, int64(to), random.Int64N(1000)}
		} else {
			random.Int64N(1000)
		}
	}
	value, to := mine[:1], int(mine[1])
	var err error
	if p.own.IntN(2) == 0 {
		err = p.win.Accumulate(ctx, value, to, n, mpi.Sum[int64]())
	} else {
		_, err = p.win.FetchAndOp(ctx, value[0], to, n, mpi.Sum[int64]())
	}
	mark := []int64{mine[2] + int64(rank)<<32}
	err = errors.Join(err, p.win.Put(ctx, mark, put[rank], rank))
	got := []int64{0}
	if err = errors.Join(err, p.win.Fence(ctx)); err != nil {
		return err
	}
	added := p.cells[n] // which nobody changes before the next Fence
	err = errors.Join(p.win.Get(ctx, got, put[rank], rank), p.win.Fence(ctx))
	if err != nil {
		return err
	}
	if got[0] != mark[0] || added != p.sum[rank] {
		return fmt.Errorf("put %x and got %x; added up %d, want %d", mark, got, added, p.sum[rank])
	}
	return nil
}

// Random programs of ranks that all live.
func TestRandomPrograms(t *testing.T) {
	seed := testenv.Seed(t, 0)
	for _, provider := range fabrics {
		run(t, provider, 4, func(ctx context.Context, w *mpi.World) error {
			p, err := begin(ctx, &w.Comm, seed)
			for round := 0; round < 40 && err == nil; round++ {
				err = p.round(ctx, round)
			}
			return err
		})
	}
}

// observe is another goroutine of a program, which looks for deaths while that waits for a message
// from anybody: such a receive waits on until the communicator is revoked.
func observe(c *mpi.Comm) (stop func()) {
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Second):
				if len(c.Failed()) > 0 {
					_ = c.Revoke() // It is, if it fails.
				}
			}
		}
	})
	return func() {
		close(over)
		watch.Wait()
	}
}

// Random programs of which ranks die: the others have RankError or ErrRevoked, have all that was
// under way end, and play on in what Shrink makes.
func TestRandomDeaths(t *testing.T) {
	seed := testenv.Seed(t, 0)
	runWith(t, soon(), "udp", 5, func(ctx context.Context, w *mpi.World) error {
		random := rand.New(rand.NewPCG(seed, 99))
		victims := random.Perm(5)[:2]
		c := &w.Comm
		for life := range 3 {
			p, err := begin(ctx, c, seed+uint64(life))
			last := random.IntN(6)
			stop := observe(c)
			for round := 0; err == nil; round++ {
				if life < 2 && round == last && w.Rank() == victims[life] {
					stop()
					w.Kill()
					return nil
				}
				if life == 2 && round > last {
					stop()
					return w.Finalize(ctx)
				}
				err = p.round(ctx, round)
			}
			stop()
			var gone *mpi.RankError
			if life == 2 || !errors.As(err, &gone) && !errors.Is(err, mpi.ErrRevoked) {
				return fmt.Errorf("life %d: %w", life, err)
			}
			if err := c.Revoke(); err != nil {
				return err
			}
			_ = mpi.WaitAll(ctx, nil, p.loose...) // It ends.
			if c, err = c.Shrink(ctx); err != nil {
				return err
			}
			if c.Size() != 4-life {
				return fmt.Errorf("life %d: %d ranks are left", life, c.Size())
			}
		}
		return nil
	})
}
