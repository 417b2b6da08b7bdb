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

// The type "place" has the arguments that one rank has passed to Split.
type place struct{ Colour, Key int64 }

// Dup returns a new communicator of the same ranks. Messages of the new communicator do not match
// receives of the communicator c. All ranks must call Dup. The errors of Dup are the errors of
// collective operations, ErrContexts, and ErrWrongContext.
func (c *Comm) Dup(ctx context.Context) (*Comm, error) { return c.Split(ctx, 0, c.rank) }

// SplitByNode returns a communicator of those ranks of this communicator that run on the same host
// as the caller, in the same order as in this communicator. All ranks must call SplitByNode. The
// errors of SplitByNode are those of Dup.
func (c *Comm) SplitByNode(ctx context.Context) (*Comm, error) {
	return c.Split(ctx, c.nodes[c.rank], c.rank)
}

// Split returns a communicator of the ranks that have passed the same colour as this rank to Split.
// A colour must be 0 or more, or NoColour. The ranks of the new communicator are ordered by their
// keys. Ranks that have passed the same key keep the order that they have in this communicator. If
// a rank has passed NoColour, the result of Split at this rank is nil. All ranks must call Split.
// The errors of Split are the errors of collective operations, ErrContexts, and ErrWrongContext.
func (c *Comm) Split(ctx context.Context, colour, key int) (*Comm, error) {
	all := make([]place, len(c.ranks))
	mine := []place{{int64(colour), int64(key)}}
	if err := Allgather(ctx, c, mine, all); err != nil {
		return nil, c.refuse(err) // uses up the tag of the second Allgather
	}
	var members []int // ranks of this communicator
	for rank, p := range all {
		if p.Colour == int64(colour) && colour != NoColour {
			members = append(members, rank)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(all[a].Key, all[b].Key) })
	// The first rank of each colour makes the context of a new communicator. All ranks receive the
	// contexts of all new communicators, because all ranks must call the same collective
	// operations.
	contexts := make([]uint64, len(c.ranks))
	own := []uint64{0}
	if len(members) > 0 && members[0] == c.rank {
		own[0] = c.newContext()
	}
	if err := Allgather(ctx, c, own, contexts); err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, nil //nolint:nilnil // MPI_COMM_NULL, as documented
	}
	return c.with(members, contexts[members[0]])
}

// The method "with" makes a communicator of the given ranks of this communicator, which must
// include this process. The argument "context" must have been made by the first of the given ranks.
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
	if err := c.e.used.check(context, made.ranks[0]); err != nil {
		return nil, err
	}
	made.register()
	return made, nil
}

// Create returns a communicator of the ranks of a group, in the order of the group
// (MPI_Comm_create). At a rank that does not belong to the group, the result of Create is nil. All
// ranks of this communicator must call Create, and all ranks that belong to one group must pass the
// same group. In the same collective call of Create, different ranks may pass different groups, if
// these groups have no ranks in common. The errors of Create are ErrGroup and the errors of Split.
func (c *Comm) Create(ctx context.Context, g Group) (*Comm, error) {
	members, wrong := c.members(g)
	colour, key := NoColour, g.find(c.ranks[c.rank])
	if wrong == nil && key >= 0 {
		colour = members[0]
	}
	// Even if this rank has passed an invalid group, Create calls Split, so that the other ranks do
	// not wait for this rank.
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

// CreateGroup works like Create, but is called only by the ranks of the group
// (MPI_Comm_create_group). CreateGroup works even if ranks of this communicator that do not belong
// to the group are dead. CreateGroup sends messages with the given tag in this communicator,
// between ranks of the group. During a call of CreateGroup, the program must not use the same tag
// for a receive in this communicator. If ctx ends at one rank during CreateGroup, some ranks of the
// group might get the new communicator while the rest of the group gets ErrGroup. The errors of
// CreateGroup are ErrGroup, ErrContexts, ErrWrongContext, and the errors of Send and Recv. If the
// caller does not belong to the group, CreateGroup returns ErrGroup.
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
	// The context of the new communicator goes from the first rank of the group to all ranks of the
	// group, along a binomial tree.
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
	} else {
		context[0] = c.newContext()
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

// withoutContext returns the value that CreateGroup sends in place of a context if CreateGroup has
// failed with the error "err". The two lowest bits of the result of withoutContext say whether a
// rank is dead (3) or this rank has stopped waiting (1). In a valid context, the two lowest bits
// are 0.
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

// The method "members" converts the ranks of a group to ranks of this communicator, and returns
// ErrGroup if a rank of the group does not belong to this communicator.
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

// newContext makes the context of a new communicator. If this rank has already made the largest
// possible number of contexts, newContext returns 0.
func (c *Comm) newContext() uint64 {
	c.e.lock()
	defer c.e.unlock()
	return c.e.contexts.next()
}
