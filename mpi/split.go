package mpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// NoColour is the colour of a rank that belongs to none of the communicators that Split makes.
const NoColour = -1

// place holds the arguments that one rank has given to Split.
type place struct{ Colour, Key int64 }

// Dup returns a new communicator of the same ranks. Messages of the new communicator do not match
// receives of the communicator c. All ranks must call Dup. Dup returns the errors of collective
// operations, and ErrContexts.
func (c *Comm) Dup(ctx context.Context) (*Comm, error) { return c.Split(ctx, 0, c.rank) }

// SplitByNode returns a communicator of the ranks of this communicator that run on the caller's
// host, in the same order. All ranks must call SplitByNode. SplitByNode returns the errors of Dup.
func (c *Comm) SplitByNode(ctx context.Context) (*Comm, error) {
	return c.Split(ctx, c.nodes[c.rank], c.rank)
}

// Split returns a communicator of the ranks that have given the same colour, which must be
// 0 or more. Split orders the ranks of the new communicator by their keys. Ranks with equal
// keys keep their present order. A rank that has given NoColour gets nil. All ranks must
// call Split. Split returns the errors of collective operations, and ErrContexts.
func (c *Comm) Split(ctx context.Context, colour, key int) (*Comm, error) {
	all := make([]place, len(c.ranks))
	mine := []place{{int64(colour), int64(key)}}
	if err := Allgather(ctx, c, mine, all); err != nil {
		return nil, err
	}
	var members []int // ranks of this communicator
	for rank, p := range all {
		if p.Colour == int64(colour) && colour != NoColour {
			members = append(members, rank)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(all[a].Key, all[b].Key) })
	// The first rank of each colour makes the context of a new communicator, and all ranks
	// receive all contexts, so that all ranks take part in the same operations.
	contexts := make([]uint64, len(c.ranks))
	own, full := []uint64{0}, false
	if len(members) > 0 && members[0] == c.rank {
		own[0], full = c.e.newContext()
		if full {
			own[0] = 0
		}
	}
	if err := Allgather(ctx, c, own, contexts); err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, nil //nolint:nilnil // MPI_COMM_NULL, as documented
	}
	return c.with(members, contexts[members[0]])
}

// The method with makes a communicator of the given ranks of this communicator, which must
// include this process.
func (c *Comm) with(members []int, context uint64) (*Comm, error) {
	if context == 0 {
		return nil, ErrContexts
	}
	made := &Comm{e: c.e, context: context, index: make(map[int]int, len(members))}
	for i, rank := range members {
		made.ranks = append(made.ranks, c.ranks[rank])
		made.nodes = append(made.nodes, c.nodes[rank])
		made.index[c.ranks[rank]] = i
		if rank == c.rank {
			made.rank = i
		}
	}
	c.e.lock()
	defer c.e.unlock()
	made.register()
	return made, nil
}

// Create returns a communicator of the ranks of a group, in the order of the group
// (MPI_Comm_create). A rank that does not belong to the group gets nil. All ranks of this
// communicator must call Create, and all ranks of a group must give the same group. Several
// disjoint groups may be given in one call. Create returns ErrGroup, and the errors of Split.
func (c *Comm) Create(ctx context.Context, g Group) (*Comm, error) {
	members, wrong := c.members(g)
	colour, key := NoColour, g.find(c.ranks[c.rank])
	if wrong == nil && key >= 0 {
		colour = members[0]
	}
	// A rank that has given a wrong group takes part in the Split, so that the other ranks do not
	// wait for this rank.
	made, err := c.Split(ctx, colour, key)
	switch {
	case err != nil || wrong != nil:
		return nil, errors.Join(wrong, err)
	case made != nil && !slices.Equal(made.ranks, g.ranks):
		made.Free()
		return nil, fmt.Errorf("%w: the others have given another one", ErrGroup)
	}
	return made, nil
}

// CreateGroup is a Create that only the ranks of the group call (MPI_Comm_create_group).
// CreateGroup works even if other ranks of this communicator are dead. CreateGroup sends messages
// with the given tag in this communicator, between ranks of the group. During a call of
// CreateGroup, no other receive may use the same tag. If ctx ends before CreateGroup returns,
// other ranks may get the communicator or ErrGroup. CreateGroup returns ErrGroup, also if the
// caller does not belong to the group, ErrContexts, or the errors of Send and Recv.
func (c *Comm) CreateGroup(ctx context.Context, g Group, tag int) (*Comm, error) {
	if ctx == nil {
		return nil, ErrContext
	}
	members, err := c.members(g)
	if err != nil {
		return nil, err
	}
	own := slices.Index(members, c.rank)
	if own < 0 {
		return nil, fmt.Errorf("%w: this rank does not belong to it", ErrGroup)
	}
	// The first rank sends the context of the new communicator to the other ranks down a binomial
	// tree.
	context, reach := []uint64{0}, 1
	for own&reach == 0 && reach < len(members) {
		reach *= 2
	}
	if own > 0 {
		if _, err = Recv(ctx, c, context, members[own-reach], tag); err != nil {
			context[0] = c.withoutContext(err)
		} else {
			err = c.noContext(context[0])
		}
	} else if made, full := c.e.newContext(); !full {
		context[0] = made
	}
	for reach /= 2; reach > 0; reach /= 2 {
		if own+reach < len(members) {
			err = errors.Join(err, Send(ctx, c, context, members[own+reach], tag))
		}
	}
	if err != nil {
		return nil, err
	}
	return c.with(members, context[0])
}

// withoutContext returns the value that CreateGroup sends down the tree in place of a context.
// The two lowest bits of the value, which are 0 in each context, say that a rank of the world is
// dead, or that this rank has given up.
func (c *Comm) withoutContext(err error) uint64 {
	var gone *RankError
	if errors.As(err, &gone) {
		return uint64(gone.Rank)<<2 | 3
	}
	return uint64(c.ranks[c.rank])<<2 | 1
}

func (c *Comm) noContext(context uint64) error {
	rank := int(context >> 2)
	switch context & 3 {
	case 3:
		return c.e.gone(rank, errDecided)
	case 1:
		return fmt.Errorf("%w: rank %d of the world has given up", ErrGroup, rank)
	}
	return nil
}

// members converts the ranks of a group to ranks of this communicator, and returns ErrGroup if a
// rank does not belong to it.
func (c *Comm) members(g Group) ([]int, error) {
	members := make([]int, 0, len(g.ranks))
	for _, world := range g.ranks {
		rank, ok := c.rankIn(world)
		if !ok {
			return nil, fmt.Errorf("%w: it has rank %d of the world", ErrGroup, world)
		}
		members = append(members, rank)
	}
	return members, nil
}

// newContext makes the context of a new communicator. If no contexts are left, the result full of
// newContext is true. The context of the world is 0.
func (e *engine) newContext() (context uint64, full bool) {
	e.lock()
	defer e.unlock()
	if e.contexts+1 >= 1<<countBits {
		return 0, true
	}
	return e.nextContext(), false
}

// nextContext makes a context. The caller must have checked that contexts are left. The caller
// must hold mu.
func (e *engine) nextContext() uint64 {
	e.contexts++
	return uint64(e.rank)<<makerShift | e.contexts<<countShift
}
