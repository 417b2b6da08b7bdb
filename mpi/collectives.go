package mpi

import "context"

// The operations of all ranks of a communicator: all of them must call the same ones in the same
// order, with the same sizes and the same root. A rank that hears of another size has ErrCount, and
// values that are worth nothing; those that depend on it have, too. A call that is refused for its
// arguments has taken its turn and sends nothing: ranks that need this one wait until their
// contexts end, and the next operation is again that of all. Each returns when this rank's
// part is done, which says nothing of the others but for Barrier; those that begin with I begin it,
// and r ends with it.
// Slices belong to the operation until then: when ctx ends first, or another rank fails, the error
// says ErrInUse, and the operation goes on. in and out must not overlap (ErrConfig), with these
// exceptions: they may be the same slice in reductions, scans and an Alltoall with the same counts
// in both; a rank's in may be its own part of out in an Allgather, and at the root of a Gather; and
// at the root of a Scatter out may be its own part of in. ReduceScatter takes any.
// Errors: ErrConfig, ErrRank, ErrType, ErrCount, ErrFinalized, a
// RankError, what broke, or the cause of ctx; of the I also ErrBusy.

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm) error {
	return c.do(ctx, barrierPlan(), nil)
}

// Ibarrier begins a Barrier.
func Ibarrier(r *Request, c *Comm) error {
	return c.begin(r, barrierPlan(), nil)
}

// Bcast brings the root's data to all ranks.
func Bcast[T any](ctx context.Context, c *Comm, data []T, root int) error {
	p, err := bcastPlan(data, root)
	return c.do(ctx, p, err)
}

// Ibcast begins a Bcast.
func Ibcast[T any](r *Request, c *Comm, data []T, root int) error {
	p, err := bcastPlan(data, root)
	return c.begin(r, p, err)
}

// Reduce combines the in of all ranks, value by value, into the root's out, which others may leave
// nil.
func Reduce[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], root int) error {
	p, err := reducePlan(c, in, out, op, root)
	return c.do(ctx, p, err)
}

// Ireduce begins a Reduce.
func Ireduce[T any](r *Request, c *Comm, in, out []T, op Op[T], root int) error {
	p, err := reducePlan(c, in, out, op, root)
	return c.begin(r, p, err)
}

// Allreduce combines the in of all ranks, value by value, into the out of all.
func Allreduce[T any](ctx context.Context, c *Comm, in, out []T, op Op[T]) error {
	p, err := allreducePlan(in, out, op)
	return c.do(ctx, p, err)
}

// Iallreduce begins a Allreduce.
func Iallreduce[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := allreducePlan(in, out, op)
	return c.begin(r, p, err)
}

// Gather collects the in of all ranks, of one length, one behind the other in the root's out,
// which others may leave nil.
func Gather[T any](ctx context.Context, c *Comm, in, out []T, root int) error {
	p, err := gatherPlan(c, in, out, nil, root, c.rank == root, gatherSteps)
	return c.do(ctx, p, err)
}

// Igather begins a Gather.
func Igather[T any](r *Request, c *Comm, in, out []T, root int) error {
	p, err := gatherPlan(c, in, out, nil, root, c.rank == root, gatherSteps)
	return c.begin(r, p, err)
}

// Gatherv is Gather of slices of different lengths, which counts tells, by rank, everywhere alike.
func Gatherv[T any](ctx context.Context, c *Comm, in, out []T, counts []int, root int) error {
	p, err := gatherPlan(c, in, out, counts, root, c.rank == root, gatherSteps)
	return c.do(ctx, p, err)
}

// Igatherv begins a Gatherv.
func Igatherv[T any](r *Request, c *Comm, in, out []T, counts []int, root int) error {
	p, err := gatherPlan(c, in, out, counts, root, c.rank == root, gatherSteps)
	return c.begin(r, p, err)
}

// Scatter cuts the root's in, which others may leave nil, into one part for each rank's out, all
// of one length.
func Scatter[T any](ctx context.Context, c *Comm, in, out []T, root int) error {
	p, err := scatterPlan(c, in, out, nil, root)
	return c.do(ctx, p, err)
}

// Iscatter begins a Scatter.
func Iscatter[T any](r *Request, c *Comm, in, out []T, root int) error {
	p, err := scatterPlan(c, in, out, nil, root)
	return c.begin(r, p, err)
}

// Scatterv is Scatter of parts of different lengths, which counts tells, by rank, everywhere
// alike.
func Scatterv[T any](ctx context.Context, c *Comm, in, out []T, counts []int, root int) error {
	p, err := scatterPlan(c, in, out, counts, root)
	return c.do(ctx, p, err)
}

// Iscatterv begins a Scatterv.
func Iscatterv[T any](r *Request, c *Comm, in, out []T, counts []int, root int) error {
	p, err := scatterPlan(c, in, out, counts, root)
	return c.begin(r, p, err)
}

// Allgather collects the in of all ranks, of one length, one behind the other in the out of all.
func Allgather[T any](ctx context.Context, c *Comm, in, out []T) error {
	p, err := gatherPlan(c, in, out, nil, 0, true, allgatherSteps)
	return c.do(ctx, p, err)
}

// Iallgather begins a Allgather.
func Iallgather[T any](r *Request, c *Comm, in, out []T) error {
	p, err := gatherPlan(c, in, out, nil, 0, true, allgatherSteps)
	return c.begin(r, p, err)
}

// Allgatherv is Allgather of slices of different lengths, which counts tells, by rank.
func Allgatherv[T any](ctx context.Context, c *Comm, in, out []T, counts []int) error {
	p, err := gatherPlan(c, in, out, counts, 0, true, allgatherSteps)
	return c.do(ctx, p, err)
}

// Iallgatherv begins a Allgatherv.
func Iallgatherv[T any](r *Request, c *Comm, in, out []T, counts []int) error {
	p, err := gatherPlan(c, in, out, counts, 0, true, allgatherSteps)
	return c.begin(r, p, err)
}

// Alltoall brings the part of in at the place of each rank, all of one length, to the part of its
// out at the place of this one.
func Alltoall[T any](ctx context.Context, c *Comm, in, out []T) error {
	p, err := alltoallPlan(c, in, nil, out, nil)
	return c.do(ctx, p, err)
}

// Ialltoall begins a Alltoall.
func Ialltoall[T any](r *Request, c *Comm, in, out []T) error {
	p, err := alltoallPlan(c, in, nil, out, nil)
	return c.begin(r, p, err)
}

// Alltoallv is Alltoall of parts of different lengths: inCounts tells those for each rank,
// outCounts those of each, as these tell it.
func Alltoallv[T any](ctx context.Context, c *Comm,
	in []T, inCounts []int, out []T, outCounts []int,
) error {
	p, err := alltoallPlan(c, in, inCounts, out, outCounts)
	return c.do(ctx, p, err)
}

// Ialltoallv begins a Alltoallv.
func Ialltoallv[T any](r *Request, c *Comm,
	in []T, inCounts []int, out []T, outCounts []int,
) error {
	p, err := alltoallPlan(c, in, inCounts, out, outCounts)
	return c.begin(r, p, err)
}

// ReduceScatter combines the in of all ranks, value by value, and brings to the out of each its
// part of the result, whose lengths counts tells, by rank; nil means that all are the same. in and
// out may overlap in any way.
func ReduceScatter[T any](ctx context.Context, c *Comm,
	in, out []T, counts []int, op Op[T],
) error {
	p, err := reduceScatterPlan(c, in, out, counts, op)
	return c.do(ctx, p, err)
}

// IreduceScatter begins a ReduceScatter.
func IreduceScatter[T any](r *Request, c *Comm, in, out []T, counts []int, op Op[T]) error {
	p, err := reduceScatterPlan(c, in, out, counts, op)
	return c.begin(r, p, err)
}

// Scan combines the in of all ranks up to this one, value by value, into out.
func Scan[T any](ctx context.Context, c *Comm, in, out []T, op Op[T]) error {
	p, err := scanPlan(in, out, op)
	return c.do(ctx, p, err)
}

// Iscan begins a Scan.
func Iscan[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := scanPlan(in, out, op)
	return c.begin(r, p, err)
}

// Exscan combines the in of all ranks before this one into out, which rank 0 leaves as it was, and
// may leave nil.
func Exscan[T any](ctx context.Context, c *Comm, in, out []T, op Op[T]) error {
	p, err := exscanPlan(c, in, out, op)
	return c.do(ctx, p, err)
}

// Iexscan begins a Exscan.
func Iexscan[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := exscanPlan(c, in, out, op)
	return c.begin(r, p, err)
}
