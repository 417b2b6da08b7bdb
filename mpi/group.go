package mpi

import (
	"fmt"
	"slices"
)

// Undefined stands for the rank of a process that does not belong to a group (MPI_UNDEFINED). Sends
// and receives do not accept Undefined as a rank.
const Undefined = -3

// Group is an ordered set of processes of a job (MPI_Group), numbered from 0. A Group is immutable,
// and the methods of a Group send no messages. The zero value of Group is the empty group
// (MPI_GROUP_EMPTY). A Group is safe for concurrent use by several goroutines. There is no call to
// free a Group.
type Group struct {
	ranks []int // in the world
	own   int   // this process's rank in the world
}

// Span describes the ranks First, First+Stride, First+2*Stride and so on of a group, and ends
// before the first rank beyond Last. With a negative Stride, Last is at most First. A Stride of 0
// counts as 1.
type Span struct{ First, Last, Stride int }

// Comparison is the result of comparing two groups or communicators.
type Comparison int

// The following constants are the results of comparing two groups or communicators.
const (
	// Identical means that the two communicators are the same, or that the two groups have the same
	// ranks in the same order (MPI_IDENT).
	Identical Comparison = iota
	// Congruent means that two different communicators have the same ranks in the same order
	// (MPI_CONGRUENT).
	Congruent
	// Similar means that the two groups or communicators contain the same processes in different
	// orders (MPI_SIMILAR).
	Similar
	// Unequal means that one of the two groups or communicators contains a process that is not in the
	// other (MPI_UNEQUAL).
	Unequal
)

// Group returns the group of the communicator's ranks (MPI_Comm_group).
func (c *Comm) Group() Group { return Group{ranks: c.ranks, own: c.ranks[c.rank]} }

// Compare compares this communicator with the communicator d, which must belong to the same job
// (MPI_Comm_compare).
func (c *Comm) Compare(d *Comm) Comparison {
	if c.context == d.context {
		return Identical
	}
	if how := c.Group().Compare(d.Group()); how != Identical {
		return how
	}
	return Congruent
}

// Size returns the number of ranks of the group (MPI_Group_size).
func (g Group) Size() int { return len(g.ranks) }

// Rank returns this process's rank in the group, or Undefined if this process does not belong to
// the group (MPI_Group_rank).
func (g Group) Rank() int { return g.find(g.own) }

// WorldRank returns the world rank of a rank of this group, or Undefined if the group has no such
// rank.
func (g Group) WorldRank(rank int) int {
	if rank < 0 || rank >= len(g.ranks) {
		return Undefined
	}
	return g.ranks[rank]
}

func (g Group) find(world int) int {
	if rank := slices.Index(g.ranks, world); rank >= 0 {
		return rank
	}
	return Undefined
}

func (g Group) index() map[int]int {
	index := make(map[int]int, len(g.ranks))
	for rank, world := range g.ranks {
		index[world] = rank
	}
	return index
}

// Translate converts ranks of this group to the ranks that the same processes have in the group
// "to" (MPI_Group_translate_ranks). If a process does not belong to the group "to", Translate
// returns Undefined for this process. Translate converts the value NoRank to NoRank. If one of the
// given ranks does not exist in this group, Translate returns ErrRank.
func (g Group) Translate(ranks []int, to Group) ([]int, error) {
	index, there := to.index(), make([]int, len(ranks))
	for i, rank := range ranks {
		if there[i] = NoRank; rank == NoRank {
			continue
		}
		if err := g.check(rank); err != nil {
			return nil, err
		}
		var ok bool
		if there[i], ok = index[g.ranks[rank]]; !ok {
			there[i] = Undefined
		}
	}
	return there, nil
}

// Compare compares two groups, and returns Identical, Similar or Unequal (MPI_Group_compare).
func (g Group) Compare(h Group) Comparison {
	switch {
	case slices.Equal(g.ranks, h.ranks):
		return Identical
	case len(g.ranks) == len(h.ranks) && g.Difference(h).Size() == 0:
		return Similar
	}
	return Unequal
}

// Incl returns a group that consists of the given ranks of this group, in the given order
// (MPI_Group_incl). If a rank does not exist or is given twice, Incl returns ErrRank.
func (g Group) Incl(ranks ...int) (Group, error) {
	if _, err := g.choose(ranks); err != nil {
		return Group{}, err
	}
	some := Group{own: g.own, ranks: make([]int, 0, len(ranks))}
	for _, rank := range ranks {
		some.ranks = append(some.ranks, g.ranks[rank])
	}
	return some, nil
}

// Excl returns this group without the given ranks, in the same order (MPI_Group_excl). Excl returns
// ErrRank if a rank does not exist or is given twice.
func (g Group) Excl(ranks ...int) (Group, error) {
	chosen, err := g.choose(ranks)
	if err != nil {
		return Group{}, err
	}
	return g.where(func(rank, _ int) bool { return !chosen[rank] }), nil
}

// InclSpans works like Incl, for the ranks that the spans describe (MPI_Group_range_incl). If a
// span is invalid, InclSpans returns ErrRank.
func (g Group) InclSpans(spans ...Span) (Group, error) {
	ranks, err := g.unroll(spans)
	if err != nil {
		return Group{}, err
	}
	return g.Incl(ranks...)
}

// ExclSpans works like Excl, for the ranks that the spans describe (MPI_Group_range_excl). If a
// span is invalid, ExclSpans returns ErrRank.
func (g Group) ExclSpans(spans ...Span) (Group, error) {
	ranks, err := g.unroll(spans)
	if err != nil {
		return Group{}, err
	}
	return g.Excl(ranks...)
}

// Union returns a group of the processes of this group, followed by those processes of the group h
// that do not belong to this group (MPI_Group_union).
func (g Group) Union(h Group) Group {
	if len(g.ranks) == 0 {
		return h
	}
	all := Group{own: g.own, ranks: slices.Clone(g.ranks)}
	all.ranks = append(all.ranks, h.Difference(g).ranks...)
	return all
}

// Intersection returns a group of the processes that belong to both this group and the group h, in
// the order of this group (MPI_Group_intersection).
func (g Group) Intersection(h Group) Group {
	index := h.index()
	return g.where(func(_, world int) bool { _, in := index[world]; return in })
}

// Difference returns a group of those processes of this group that do not belong to the group h, in
// the order of this group (MPI_Group_difference).
func (g Group) Difference(h Group) Group {
	index := h.index()
	return g.where(func(_, world int) bool { _, in := index[world]; return !in })
}

// The method "where" returns a group of those ranks of this group for which the function fn returns
// true. The arguments of fn are a rank in this group and the world rank of the same process.
func (g Group) where(fn func(rank, world int) bool) Group {
	some := Group{own: g.own}
	for rank, world := range g.ranks {
		if fn(rank, world) {
			some.ranks = append(some.ranks, world)
		}
	}
	return some
}

// The method "choose" returns a slice in which the entries of the given ranks are true. If a rank
// does not exist or is listed twice, the method "choose" returns ErrRank.
func (g Group) choose(ranks []int) ([]bool, error) {
	chosen := make([]bool, len(g.ranks))
	for _, rank := range ranks {
		if err := g.check(rank); err != nil {
			return nil, err
		}
		if chosen[rank] {
			return nil, fmt.Errorf("%w: %d is given twice", ErrRank, rank)
		}
		chosen[rank] = true
	}
	return chosen, nil
}

// The method "unroll" lists the ranks that the spans describe, in their order. If a span is
// invalid, the method "unroll" returns ErrRank.
func (g Group) unroll(spans []Span) (ranks []int, err error) {
	for _, s := range spans {
		if err := g.check(s.First); err != nil {
			return nil, err
		}
		if err := g.check(s.Last); err != nil {
			return nil, err
		}
		step := s.Stride
		if step == 0 {
			step = 1
		}
		if s.First != s.Last && (s.Last > s.First) != (step > 0) {
			return nil, fmt.Errorf("%w: %d does not come from %d by %d", ErrRank, s.Last, s.First, step)
		}
		for i := range (s.Last-s.First)/step + 1 {
			ranks = append(ranks, s.First+i*step)
		}
	}
	return ranks, nil
}

func (g Group) check(rank int) error {
	if rank < 0 || rank >= len(g.ranks) {
		return fmt.Errorf("%w: %d of %d", ErrRank, rank, len(g.ranks))
	}
	return nil
}
