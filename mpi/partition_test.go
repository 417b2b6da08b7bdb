package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"gobtl/fabric/sim"
	"gobtl/internal/testenv"
	"gobtl/mpi"
)

// part cuts the ranks below a number off from the others, or heals that.
func (s *stage) part(below int, cut bool) {
	for i, a := range s.ranks {
		for j, b := range s.ranks {
			if (i < below) == (j < below) {
				continue
			}
			path := sim.Path{Delay: 20 * time.Microsecond}
			if cut {
				path.Loss = 1
			}
			s.SetPath(a.Node, b.Node, path)
		}
	}
}

// split is a job of which two parts cannot reach each other for a while.
type split struct {
	*stage
	below    int           // the ranks of one part
	cut      time.Duration // when it begins
	heal     time.Duration // when it ends; 0: when all have gone on without the others
	state    int
	left     []*mpi.Comm
	wentOn   int
	excluded []bool
}

// between cuts and heals when it is time.
func (p *split) between() error {
	now := time.Duration(p.Now())
	switch {
	case p.state == 0 && now >= p.cut:
		p.part(p.below, true)
		p.state++
	case p.state == 1 && (p.heal > 0 && now >= p.heal || p.heal == 0 && p.wentOn == len(p.ranks)):
		p.part(p.below, false)
		p.state++
	}
	return nil
}

// goOn works in the communicator of those that are left, until a while after the end of the
// partition.
func (p *split) goOn(ctx context.Context, a *actor, c *mpi.Comm) error {
	p.left[a.rank] = c
	p.wentOn++
	if p.heal == 0 {
		a.wait(func() bool { return p.state == 2 || ctx.Err() != nil })
	}
	for range 20 {
		until := p.Now().Add(50 * time.Millisecond)
		a.wait(func() bool { return p.Now() >= until || ctx.Err() != nil })
		one := []int64{1}
		if err := mpi.Allreduce(ctx, c, one, one, mpi.Sum[int64]()); err != nil {
			return fmt.Errorf("after the end: %w", err)
		}
		if int(one[0]) != c.Size() {
			return fmt.Errorf("after the end: %d of %d ranks", one[0], c.Size())
		}
	}
	for _, rank := range a.world.Failed() {
		if err := mpi.Send(ctx, &a.world.Comm, make([]byte, 1), rank, 1); err == nil {
			return fmt.Errorf("rank %d, which this one goes on without, was sent to", rank)
		}
	}
	return nil
}

// Two parts of a job that cannot reach each other become two jobs, also when they can again.
func TestPartition(t *testing.T) {
	begin := testenv.Seed(t, 1)
	for seed := begin; seed < begin+max(2, *seeds/8); seed++ {
		size := 4 + int(seed%3)
		p := &split{
			stage: newStage(t, seed, size), below: 1 + int(seed)%(size-1),
			cut: time.Duration(seed%7) * time.Millisecond, left: make([]*mpi.Comm, size),
		}
		p.play(t, func(ctx context.Context, w *mpi.World) error {
			a := p.ranks[w.Rank()]
			c, err := a.survive(ctx, seed)
			for err == nil && c.Size() == size { // It has come to its end before the cut.
				c, err = a.survive(ctx, seed)
			}
			if err == nil {
				err = p.goOn(ctx, a, c)
			}
			return err
		}, func() error {
			var errs []error
			for _, a := range p.ranks {
				errs = append(errs, a.observe())
			}
			return errors.Join(append(errs, p.between())...)
		})
		for rank, c := range p.left {
			want := size - p.below
			if rank < p.below {
				want = p.below
			}
			if c.Size() != want {
				t.Errorf("seed %d: rank %d goes on among %d ranks, not %d", seed, rank, c.Size(), want)
			}
		}
		p.end(t)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// The same among more ranks than tell each other all.
func TestPartitionOfMany(t *testing.T) {
	if testenv.Race {
		t.Skip("the ranks run one at a time, as in TestPartition")
	}
	const size, below = 70, 30
	p := &split{
		stage: newStage(t, testenv.Seed(t, 1), size), below: below, cut: time.Millisecond,
		left: make([]*mpi.Comm, size),
	}
	p.play(t, func(ctx context.Context, w *mpi.World) error {
		var err error
		for err == nil {
			err = mpi.Barrier(ctx, &w.Comm)
		}
		c := &w.Comm
		for c.Size() > size-below && !errors.Is(err, mpi.ErrExcluded) {
			if err = c.Revoke(); err == nil {
				c, err = c.Shrink(ctx)
			}
			if err != nil {
				return err
			}
			err = mpi.Barrier(ctx, c)
		}
		if err != nil {
			return err
		}
		return p.goOn(ctx, p.ranks[w.Rank()], c)
	}, p.between)
	for rank, c := range p.left {
		if want := map[bool]int{true: below, false: size - below}[rank < below]; c.Size() != want {
			t.Errorf("rank %d goes on among %d ranks, not %d", rank, c.Size(), want)
		}
	}
	p.end(t)
}

// A partition that ends at any moment, also when some have given up others and some have not, hangs
// nobody: whoever goes on does so with ranks that know the same, and who was given up learns it.
func TestPartitionHeals(t *testing.T) {
	begin := testenv.Seed(t, 1)
	alone := 0
	for seed := begin; seed < begin+max(4, *seeds/4); seed++ {
		size := 4 + int(seed%3)
		p := &split{
			stage: newStage(t, seed, size), below: 1 + int(seed)%(size-1),
			cut: time.Duration(seed%7) * time.Millisecond, left: make([]*mpi.Comm, size),
			excluded: make([]bool, size),
		}
		p.heal = p.cut + time.Duration(p.random.Int64N(int64(1200*time.Millisecond)))
		p.play(t, func(ctx context.Context, w *mpi.World) error {
			a := p.ranks[w.Rank()]
			var c *mpi.Comm
			var err error
			for err == nil && (c == nil || c.Size() == size && time.Duration(p.Now()) < p.heal+time.Second) {
				c, err = a.survive(ctx, seed)
			}
			if errors.Is(err, mpi.ErrExcluded) {
				p.excluded[a.rank] = true
				return nil
			}
			p.left[a.rank] = c
			return err
		}, func() error {
			var errs []error
			for i, a := range p.ranks {
				if !p.excluded[i] {
					errs = append(errs, a.observe())
				}
			}
			return errors.Join(append(errs, p.between())...)
		})
		for rank, c := range p.left {
			if c == nil {
				alone++
				continue
			}
			for other := range c.Size() {
				d := p.left[c.WorldRank(other)]
				if d != nil && !slices.Equal(ranksOf(c), ranksOf(d)) {
					t.Errorf("seed %d: ranks %d and %d go on with %v and %v", seed, rank,
						c.WorldRank(other), ranksOf(c), ranksOf(d))
				}
			}
		}
		p.end(t)
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d ranks were excluded", alone)
}

// ranksOf are the ranks in the world of a communicator.
func ranksOf(c *mpi.Comm) (ranks []int) {
	for rank := range c.Size() {
		ranks = append(ranks, c.WorldRank(rank))
	}
	return ranks
}
