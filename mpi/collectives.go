package mpi

import "context"

// The operations of all ranks of a communicator: all of them must call the same ones in the same
// order, with the same sizes and the same root. A rank that receives another size than its own
// returns ErrCount, and its results are undefined; the same holds for the ranks that depend on it.
// A call that is refused for its arguments counts as one operation, but sends nothing. Ranks that
// need this rank then wait until their contexts end, and the next calls match again. Each function
// returns when this rank's part is done; only Barrier implies that all other ranks have called it.
// A function whose name begins with I starts the operation, and r ends with the operation. The
// operation owns the slices until its end. If ctx ends first, or another rank fails, the error is
// ErrInUse, and the operation continues. in and out must not overlap (ErrConfig), with these
// exceptions: they may be the same slice in reductions, scans and an Alltoall with the same counts
// in both; a rank's in may be its own part of out in an Allgather, and at the root of a Gather; and
// at the root of a Scatter out may be its own part of in. ReduceScatter allows any overlap. Errors:
// ErrConfig, ErrRank, ErrType, ErrCount, ErrFinalized, a RankError, the failure of the transport,
// or the cause of ctx. Functions whose names begin with I may also return ErrBusy.

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

// Reduce combines the slice in of all ranks, value by value, into the root's out. At other ranks
// out may be nil.
func Reduce[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], root int) error {
	p, err := reducePlan(c, in, out, op, root)
	return c.do(ctx, p, err)
}

// Ireduce begins a Reduce.
func Ireduce[T any](r *Request, c *Comm, in, out []T, op Op[T], root int) error {
	p, err := reducePlan(c, in, out, op, root)
	return c.begin(r, p, err)
}

// Allreduce combines the slice in of all ranks, value by value, into the slice out of all ranks.
func Allreduce[T any](ctx context.Context, c *Comm, in, out []T, op Op[T]) error {
	p, err := allreducePlan(in, out, op)
	return c.do(ctx, p, err)
}

// Iallreduce begins a Allreduce.
func Iallreduce[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := allreducePlan(in, out, op)
	return c.begin(r, p, err)
}

// Gather concatenates the slices in of all ranks, which have the same length, in the root's out. At
// other ranks out may be nil.
func Gather[T any](ctx context.Context, c *Comm, in, out []T, root int) error {
	p, err := gatherPlan(c, in, out, nil, root, c.rank == root, gatherSteps)
	return c.do(ctx, p, err)
}

// Igather begins a Gather.
func Igather[T any](r *Request, c *Comm, in, out []T, root int) error {
	p, err := gatherPlan(c, in, out, nil, root, c.rank == root, gatherSteps)
	return c.begin(r, p, err)
}

// Gatherv is Gather of slices of different lengths. counts has the length of each rank's slice, and
// is the same at all ranks.
func Gatherv[T any](ctx context.Context, c *Comm, in, out []T, counts []int, root int) error {
	p, err := gatherPlan(c, in, out, counts, root, c.rank == root, gatherSteps)
	return c.do(ctx, p, err)
}

// Igatherv begins a Gatherv.
func Igatherv[T any](r *Request, c *Comm, in, out []T, counts []int, root int) error {
	p, err := gatherPlan(c, in, out, counts, root, c.rank == root, gatherSteps)
	return c.begin(r, p, err)
}

// Scatter divides the root's in into parts of the same length, one for each rank's out. At other
// ranks in may be nil.
func Scatter[T any](ctx context.Context, c *Comm, in, out []T, root int) error {
	p, err := scatterPlan(c, in, out, nil, root)
	return c.do(ctx, p, err)
}

// Iscatter begins a Scatter.
func Iscatter[T any](r *Request, c *Comm, in, out []T, root int) error {
	p, err := scatterPlan(c, in, out, nil, root)
	return c.begin(r, p, err)
}

// Scatterv is Scatter of parts of different lengths. counts has the length of each rank's part, and
// is the same at all ranks.
func Scatterv[T any](ctx context.Context, c *Comm, in, out []T, counts []int, root int) error {
	p, err := scatterPlan(c, in, out, counts, root)
	return c.do(ctx, p, err)
}

// Iscatterv begins a Scatterv.
func Iscatterv[T any](r *Request, c *Comm, in, out []T, counts []int, root int) error {
	p, err := scatterPlan(c, in, out, counts, root)
	return c.begin(r, p, err)
}

// Allgather concatenates the slices in of all ranks, which have the same length, in the slice out
// of all ranks.
func Allgather[T any](ctx context.Context, c *Comm, in, out []T) error {
	p, err := gatherPlan(c, in, out, nil, 0, true, allgatherSteps)
	return c.do(ctx, p, err)
}

// Iallgather begins a Allgather.
func Iallgather[T any](r *Request, c *Comm, in, out []T) error {
	p, err := gatherPlan(c, in, out, nil, 0, true, allgatherSteps)
	return c.begin(r, p, err)
}

// Allgatherv is Allgather of slices of different lengths. counts has the length of each rank's
// slice.
func Allgatherv[T any](ctx context.Context, c *Comm, in, out []T, counts []int) error {
	p, err := gatherPlan(c, in, out, counts, 0, true, allgatherSteps)
	return c.do(ctx, p, err)
}

// Iallgatherv begins a Allgatherv.
func Iallgatherv[T any](r *Request, c *Comm, in, out []T, counts []int) error {
	p, err := gatherPlan(c, in, out, counts, 0, true, allgatherSteps)
	return c.begin(r, p, err)
}

// Alltoall sends part i of in to rank i. There it becomes the part of out whose index is this rank.
// All parts have the same length.
func Alltoall[T any](ctx context.Context, c *Comm, in, out []T) error {
	p, err := alltoallPlan(c, in, nil, out, nil)
	return c.do(ctx, p, err)
}

// Ialltoall begins a Alltoall.
func Ialltoall[T any](r *Request, c *Comm, in, out []T) error {
	p, err := alltoallPlan(c, in, nil, out, nil)
	return c.begin(r, p, err)
}

// Alltoallv is Alltoall of parts of different lengths. inCounts has the length of the part for each
// rank. outCounts has the length of the part from each rank, equal to the entry in that rank's
// inCounts.
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

// ReduceScatter combines the slice in of all ranks, value by value, and brings each rank's part of
// the result to its out. counts has the length of each rank's part; nil means that all parts have
// the same length. in and out may overlap in any way.
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

// Scan combines the slices in of the ranks from 0 to this one, value by value, into out.
func Scan[T any](ctx context.Context, c *Comm, in, out []T, op Op[T]) error {
	p, err := scanPlan(in, out, op)
	return c.do(ctx, p, err)
}

// Iscan begins a Scan.
func Iscan[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := scanPlan(in, out, op)
	return c.begin(r, p, err)
}

// Exscan combines the slices in of all ranks before this one into out. At rank 0 out is not
// changed, and may be nil.
func Exscan[T any](ctx context.Context, c *Comm, in, out []T, op Op[T]) error {
	p, err := exscanPlan(c, in, out, op)
	return c.do(ctx, p, err)
}

// Iexscan begins a Exscan.
func Iexscan[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := exscanPlan(c, in, out, op)
	return c.begin(r, p, err)
}
