package mpi

import (
	"cmp"
	"context"
	"slices"
)

// NoColour has a rank belong to none of the communicators that a Split makes.
const NoColour = -1

// place is what a rank says in a Split.
type place struct{ Colour, Key int64 }

// Dup returns a communicator of the same ranks whose messages are its own. All ranks must call it.
// Errors as of collective operations, and ErrContexts.
func (c *Comm) Dup(ctx context.Context) (*Comm, error) { return c.Split(ctx, 0, c.rank) }

// SplitByNode returns the communicator of those ranks of this one that are on the same host, in the
// same order. All ranks must call it. Errors as of Dup.
func (c *Comm) SplitByNode(ctx context.Context) (*Comm, error) {
	return c.Split(ctx, c.nodes[c.rank], c.rank)
}

// Split returns a communicator of those ranks that have given the same colour, from 0 on, in the
// order of their keys, and of their ranks here where keys are the same. Who has given NoColour gets
// nil. All ranks must call it. Errors as of collective operations, and ErrContexts.
func (c *Comm) Split(ctx context.Context, colour, key int) (*Comm, error) {
	all := make([]place, len(c.ranks))
	mine := []place{{int64(colour), int64(key)}}
	if err := Allgather(ctx, c, mine, all); err != nil {
		return nil, err
	}
	var members []int // ranks here
	for rank, p := range all {
		if p.Colour == int64(colour) && colour != NoColour {
			members = append(members, rank)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(all[a].Key, all[b].Key) })
	// The first of each colour makes the context, and all are told all: so each rank takes part in
	// the same operations, whatever its colour.
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
	made := &Comm{
		e: c.e, context: contexts[members[0]], index: make(map[int]int, len(members)),
	}
	if made.context == 0 {
		return nil, ErrContexts
	}
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

// newContext makes the context of a communicator, and reports true if there are too many: the world
// has 0.
func (e *engine) newContext() (context uint64, full bool) {
	e.lock()
	defer e.unlock()
	if e.contexts+1 >= 1<<countBits {
		return 0, true
	}
	return e.nextContext(), false
}

// nextContext makes a context, of which there are enough. mu is held.
func (e *engine) nextContext() uint64 {
	e.contexts++
	return uint64(e.rank)<<makerShift | e.contexts<<countShift
}
