package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gobtl/internal/testenv"
	"gobtl/mpi"
)

// listed are a group's ranks in the world.
func listed(g mpi.Group) []int {
	ranks := make([]int, g.Size())
	for i := range ranks {
		ranks[i] = g.WorldRank(i)
	}
	return ranks
}

// only are those of some values that are in others, or that are not.
func only(some, others []int, in bool) []int {
	return slices.DeleteFunc(slices.Clone(some), func(v int) bool {
		return slices.Contains(others, v) != in
	})
}

// Random groups are what a naive model says.
func TestGroups(t *testing.T) {
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 17))
	run(t, "mem/local", 12, func(_ context.Context, w *mpi.World) error {
		if w.Rank() != 5 {
			return nil
		}
		for range 300 {
			if err := compareGroups(w, random); err != nil {
				return err
			}
		}
		return nil
	})
}

func compareGroups(w *mpi.World, random *rand.Rand) error {
	all := w.Group()
	a, b := random.Perm(12)[:random.IntN(13)], random.Perm(12)[:random.IntN(13)]
	g, err := all.Incl(a...)
	if err != nil {
		return err
	}
	h, err := all.Incl(b...)
	if err != nil {
		return err
	}
	without, err := all.Excl(a...)
	if err != nil {
		return err
	}
	everyone := listed(all)
	for i, is := range []struct {
		got  mpi.Group
		want []int
	}{
		{g, a},
		{without, only(everyone, a, false)},
		{g.Union(h), slices.Concat(a, only(b, a, false))},
		{g.Intersection(h), only(a, b, true)},
		{g.Difference(h), only(a, b, false)},
	} {
		if !slices.Equal(listed(is.got), is.want) {
			return fmt.Errorf("%v and %v, case %d: %v, want %v", a, b, i, listed(is.got), is.want)
		}
		own := slices.Index(is.want, w.Rank())
		if own < 0 {
			own = mpi.Undefined
		}
		if is.got.Rank() != own {
			return fmt.Errorf("%v: own rank %d, want %d", is.want, is.got.Rank(), own)
		}
	}
	how := mpi.Unequal
	sorted := [2][]int{slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))}
	if slices.Equal(a, b) {
		how = mpi.Identical
	} else if slices.Equal(sorted[0], sorted[1]) {
		how = mpi.Similar
	}
	if got := g.Compare(h); got != how {
		return fmt.Errorf("%v and %v are %v, want %v", a, b, got, how)
	}
	return translate(g, h, a, b)
}

// translate looks for all ranks of one group in the other, and for nobody.
func translate(g, h mpi.Group, a, b []int) error {
	ranks := []int{mpi.NoRank}
	want := []int{mpi.NoRank}
	for i, world := range a {
		there := slices.Index(b, world)
		if there < 0 {
			there = mpi.Undefined
		}
		ranks, want = append(ranks, i), append(want, there)
	}
	got, err := g.Translate(ranks, h)
	if err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("ranks of %v in %v: %v (%w), want %v", a, b, got, err, want)
	}
	if _, err := g.Translate([]int{len(a)}, h); !errors.Is(err, mpi.ErrRank) {
		return fmt.Errorf("one rank too many: %w", err)
	}
	return nil
}

// Spans are the ranks that they name; what makes no sense is an error.
func TestGroupSpans(t *testing.T) {
	run(t, "mem/local", 10, func(_ context.Context, w *mpi.World) error {
		g := w.Group()
		for _, is := range []struct {
			spans []mpi.Span
			want  []int // nil: an error
		}{
			{[]mpi.Span{{1, 8, 3}}, []int{1, 4, 7}},
			{[]mpi.Span{{9, 2, -2}, {0, 0, 0}}, []int{9, 7, 5, 3, 0}},
			{[]mpi.Span{{4, 6, 0}, {8, 8, -3}, {1, 2, 5}}, []int{4, 5, 6, 8, 1}},
			{[]mpi.Span{{0, 10, 1}}, nil},
			{[]mpi.Span{{-1, 3, 1}}, nil},
			{[]mpi.Span{{3, 1, 1}}, nil},
			{[]mpi.Span{{1, 3, -1}}, nil},
			{[]mpi.Span{{1, 3, 1}, {3, 4, 1}}, nil},
		} {
			some, err := g.InclSpans(is.spans...)
			rest, failed := g.ExclSpans(is.spans...)
			switch {
			case is.want == nil:
				if !errors.Is(err, mpi.ErrRank) || !errors.Is(failed, mpi.ErrRank) {
					return fmt.Errorf("%v: %w", is.spans, errors.Join(err, failed))
				}
			case err != nil || failed != nil || !slices.Equal(listed(some), is.want) ||
				!slices.Equal(listed(rest), only(listed(g), is.want, false)):
				return fmt.Errorf("%v: %v and %v, %w", is.spans, listed(some), listed(rest),
					errors.Join(err, failed))
			}
		}
		return nil
	})
}

// Communicators of groups have their ranks in their order; messages in them are their own.
func TestCreate(t *testing.T) {
	run(t, "udp", 7, func(ctx context.Context, w *mpi.World) error {
		odd, err := w.Group().InclSpans(mpi.Span{First: 5, Last: 1, Stride: -2})
		if err != nil {
			return err
		}
		even, err := w.Group().Incl(2, 6)
		if err != nil {
			return err
		}
		mine := even // of rank 4 and 0, too, which do not belong to it
		if w.Rank()%2 == 1 {
			mine = odd
		}
		c, err := w.Create(ctx, mine)
		if err != nil {
			return err
		}
		if (c == nil) != (mine.Rank() == mpi.Undefined) {
			return fmt.Errorf("%v of a group of %v", c, listed(mine))
		}
		if err := createGroups(ctx, w, &w.Comm); err != nil || c == nil {
			return err
		}
		return errors.Join(isGroup(ctx, w, c, mine), createGroups(ctx, w, c))
	})
}

// isGroup says whether a communicator is one of a group, and works.
func isGroup(ctx context.Context, w *mpi.World, c *mpi.Comm, g mpi.Group) error {
	all := make([]int32, g.Size())
	if err := mpi.Allgather(ctx, c, []int32{int32(w.Rank())}, all); err != nil {
		return err
	}
	for i, rank := range all {
		if int(rank) != g.WorldRank(i) {
			return fmt.Errorf("ranks are %v, of a group of %v", all, listed(g))
		}
	}
	if c.Rank() != g.Rank() || c.Group().Compare(g) != mpi.Identical {
		return fmt.Errorf("rank %d of %v, of a group of %v", c.Rank(), listed(c.Group()), listed(g))
	}
	return nil
}

// createGroups makes communicators of groups without the others, of all sizes.
func createGroups(ctx context.Context, w *mpi.World, c *mpi.Comm) error {
	if twin, err := c.Dup(ctx); err != nil || twin.Compare(c) != mpi.Congruent {
		return fmt.Errorf("a communicator and its twin: %w", err)
	}
	for n := 1; n <= c.Size(); n++ {
		last, err := c.Group().InclSpans(mpi.Span{First: c.Size() - 1, Last: c.Size() - n, Stride: -1})
		if err != nil {
			return err
		}
		made, err := w.CreateGroup(ctx, last, n)
		if last.Rank() == mpi.Undefined {
			if !errors.Is(err, mpi.ErrGroup) {
				return fmt.Errorf("who does not belong to a group has %v, %w", made, err)
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := isGroup(ctx, w, made, last); err != nil {
			return err
		}
		how := mpi.Similar
		if n < c.Size() {
			how = mpi.Unequal
		}
		if got := made.Compare(c); got != how || made.Compare(made) != mpi.Identical {
			return fmt.Errorf("%d of %d ranks: %v, want %v", n, c.Size(), got, how)
		}
		made.Free()
	}
	return nil
}

// If the ranks give different groups, the ranks whose groups do not fit get an error, and no rank
// hangs.
func TestCreateMismatch(t *testing.T) {
	run(t, "mem/local", 4, func(ctx context.Context, w *mpi.World) error {
		part, err := w.Split(ctx, w.Rank()/2, 0)
		if err != nil {
			return err
		}
		if _, err := part.Create(ctx, w.Group()); !errors.Is(err, mpi.ErrGroup) {
			return fmt.Errorf("a group of ranks of others: %w", err)
		}
		g, err := w.Group().Incl([][]int{{0, 1, 2}, {0, 1}, {0, 1, 2}, {3}}[w.Rank()]...)
		if err != nil {
			return err
		}
		c, err := w.Create(ctx, g)
		if w.Rank() == 3 || w.Rank() == 1 {
			if (err == nil) != (w.Rank() == 3) || c == nil != (w.Rank() == 1) {
				return fmt.Errorf("%v, %w", c, err)
			}
		}
		return nil
	})
}

// A communicator of the ranks that are left is made of a group, without Shrink.
func TestCreateGroupAfterDeath(t *testing.T) {
	runWith(t, mpi.Config{}, "udp", 4, func(ctx context.Context, w *mpi.World) error {
		rest, err := w.Group().Excl(1)
		if err != nil {
			return err
		}
		if w.Rank() == 1 {
			w.Kill()
			return nil
		}
		made, err := w.CreateGroup(ctx, rest, 3)
		if err != nil {
			return err
		}
		return isGroup(ctx, w, made, rest)
	})
}

// When the first rank of a group is dead the others do not wait for ever for those that have heard
// it from the dead one alone; nor when a rank between has no time left.
func TestCreateGroupWithDead(t *testing.T) {
	for _, gone := range []int{0, 4} {
		runWith(t, soon(), "udp", 8, func(ctx context.Context, w *mpi.World) error {
			all, err := w.Group().Incl(0, 1, 2, 3, 4, 5, 6, 7)
			if err != nil {
				return err
			}
			err = mpi.Alltoall(ctx, &w.Comm, make([]int8, 8), make([]int8, 8))
			if err = errors.Join(err, w.Job().Fence(ctx)); err != nil {
				return err // Else all are connected, so that death is noticed soon.
			}
			if w.Rank() == gone {
				w.Kill()
				return nil
			}
			made, err := w.CreateGroup(ctx, all, 3)
			if needs := gone == 0 || w.Rank() > gone; needs && (made != nil || dead(err, gone) != nil) {
				return fmt.Errorf("of rank %d: %v, %w", gone, made, err)
			}
			return nil
		})
	}
	run(t, "udp", 4, func(ctx context.Context, w *mpi.World) error {
		short, cancel := context.WithCancel(ctx)
		switch cancel(); w.Rank() {
		case 0: // It does not call it before all others have given up.
			return mpi.Barrier(ctx, &w.Comm)
		case 2:
			if _, err := w.CreateGroup(short, w.Group(), 3); !errors.Is(err, context.Canceled) {
				return err
			}
		case 3:
			if _, err := w.CreateGroup(ctx, w.Group(), 3); !errors.Is(err, mpi.ErrGroup) {
				return err
			}
		}
		return mpi.Barrier(ctx, &w.Comm)
	})
}
