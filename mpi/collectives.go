package mpi

import "context"

// A collective operation involves all ranks of a communicator. All ranks must call the same
// operations in the same order, with the same sizes and the same root. A blocking collective
// operation returns when this rank's part of the operation is complete. A Barrier ends at a rank
// only after all ranks have called Barrier. A collective operation that is not a Barrier can end at
// one rank before all ranks have called it.
//
// A function whose name begins with I, such as Ibcast, starts the operation and returns at once.
// The first argument of a function whose name begins with I is a Request, which ends when the
// operation ends. Until the end of the operation, the program must not use the input and output
// slices. If ctx ends or the transport fails before a blocking operation is complete, the returned
// error includes ErrInUse, which means that the operation might still use the input and output
// slices.
//
// If a rank receives data of an unexpected size, the operation returns ErrCount at this rank, and
// the content of the output slice is undefined. An operation that returns ErrCount at one rank also
// returns ErrCount at the ranks that need data from that rank. If a collective call fails because
// of its arguments, the call sends no messages, but counts as one collective operation in the order
// of operations. The ranks that need messages from a rank whose call has failed wait until their
// contexts end. The collective operations after a call that has failed because of its arguments
// still match at all ranks.
//
// The input slice and the output slice of a collective operation must not overlap (ErrConfig), with
// the following exceptions. In a reduction or a scan, the input slice and the output slice may be
// identical. In an Alltoall whose input and output have the same counts, the input slice and the
// output slice may be identical. In an Allgather, and at the root of a Gather, the input slice may
// be the rank's own part of the output slice. At the root of a Scatter, the output slice may be the
// root's own part of the input slice. In a ReduceScatter, the input slice and the output slice may
// overlap in any way.
//
// The errors of collective operations are ErrConfig, ErrRank, ErrType, ErrCount, ErrFinalized, a
// RankError, the failure of the transport, and the cause of ctx. In addition to the errors of the
// blocking function, a function whose name begins with I can return ErrBusy.

// Barrier returns when all ranks of c have called Barrier.
func Barrier(ctx context.Context, c *Comm) error {
	return c.do(ctx, barrierPlan(), nil)
}

// Ibarrier begins a Barrier.
func Ibarrier(r *Request, c *Comm) error {
	return c.begin(r, barrierPlan(), nil)
}

// Bcast copies the root's data to all ranks.
func Bcast[T any](ctx context.Context, c *Comm, data []T, root int) error {
	p, err := bcastPlan(data, root)
	return c.do(ctx, p, err)
}

// Ibcast begins a Bcast.
func Ibcast[T any](r *Request, c *Comm, data []T, root int) error {
	p, err := bcastPlan(data, root)
	return c.begin(r, p, err)
}

// Reduce combines the input slices of all ranks, value by value, and stores the result in the
// root's output slice. At ranks that are not the root, the output slice of a Reduce may be nil.
func Reduce[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], root int) error {
	p, err := reducePlan(c, in, out, op, root)
	return c.do(ctx, p, err)
}

// Ireduce begins a Reduce.
func Ireduce[T any](r *Request, c *Comm, in, out []T, op Op[T], root int) error {
	p, err := reducePlan(c, in, out, op, root)
	return c.begin(r, p, err)
}

// Allreduce combines the input slices of all ranks, value by value, and stores the result in the
// output slice of every rank.
func Allreduce[T any](ctx context.Context, c *Comm, in, out []T, op Op[T]) error {
	p, err := allreducePlan(in, out, op)
	return c.do(ctx, p, err)
}

// Iallreduce begins an Allreduce.
func Iallreduce[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := allreducePlan(in, out, op)
	return c.begin(r, p, err)
}

// Gather concatenates the input slices of all ranks, which must have the same length, in the root's
// output slice. At ranks that are not the root, the output slice of a Gather may be nil.
func Gather[T any](ctx context.Context, c *Comm, in, out []T, root int) error {
	p, err := gatherPlan(c, in, out, nil, root, c.rank == root, gatherSteps)
	return c.do(ctx, p, err)
}

// Igather begins a Gather.
func Igather[T any](r *Request, c *Comm, in, out []T, root int) error {
	p, err := gatherPlan(c, in, out, nil, root, c.rank == root, gatherSteps)
	return c.begin(r, p, err)
}

// Gatherv works like Gather, for slices of different lengths. The slice "counts" holds the length
// of each rank's slice, and is the same at all ranks.
func Gatherv[T any](ctx context.Context, c *Comm, in, out []T, counts []int, root int) error {
	p, err := gatherPlan(c, in, out, counts, root, c.rank == root, gatherSteps)
	return c.do(ctx, p, err)
}

// Igatherv begins a Gatherv.
func Igatherv[T any](r *Request, c *Comm, in, out []T, counts []int, root int) error {
	p, err := gatherPlan(c, in, out, counts, root, c.rank == root, gatherSteps)
	return c.begin(r, p, err)
}

// Scatter divides the root's input slice into parts of the same length, and copies one part to the
// output slice of each rank. At ranks that are not the root, the input slice of a Scatter may be
// nil.
func Scatter[T any](ctx context.Context, c *Comm, in, out []T, root int) error {
	p, err := scatterPlan(c, in, out, nil, root)
	return c.do(ctx, p, err)
}

// Iscatter begins a Scatter.
func Iscatter[T any](r *Request, c *Comm, in, out []T, root int) error {
	p, err := scatterPlan(c, in, out, nil, root)
	return c.begin(r, p, err)
}

// Scatterv works like Scatter, for parts of different lengths. The slice "counts" holds the length
// of each rank's part, and is the same at all ranks.
func Scatterv[T any](ctx context.Context, c *Comm, in, out []T, counts []int, root int) error {
	p, err := scatterPlan(c, in, out, counts, root)
	return c.do(ctx, p, err)
}

// Iscatterv begins a Scatterv.
func Iscatterv[T any](r *Request, c *Comm, in, out []T, counts []int, root int) error {
	p, err := scatterPlan(c, in, out, counts, root)
	return c.begin(r, p, err)
}

// Allgather concatenates the input slices of all ranks, which must have the same length, in the
// output slice of every rank.
func Allgather[T any](ctx context.Context, c *Comm, in, out []T) error {
	p, err := gatherPlan(c, in, out, nil, 0, true, allgatherSteps)
	return c.do(ctx, p, err)
}

// Iallgather begins an Allgather.
func Iallgather[T any](r *Request, c *Comm, in, out []T) error {
	p, err := gatherPlan(c, in, out, nil, 0, true, allgatherSteps)
	return c.begin(r, p, err)
}

// Allgatherv works like Allgather, for slices of different lengths. The slice "counts" holds the
// length of each rank's slice.
func Allgatherv[T any](ctx context.Context, c *Comm, in, out []T, counts []int) error {
	p, err := gatherPlan(c, in, out, counts, 0, true, allgatherSteps)
	return c.do(ctx, p, err)
}

// Iallgatherv begins an Allgatherv.
func Iallgatherv[T any](r *Request, c *Comm, in, out []T, counts []int) error {
	p, err := gatherPlan(c, in, out, counts, 0, true, allgatherSteps)
	return c.begin(r, p, err)
}

// Alltoall sends part i of the input slice to rank i, and receives data from rank i into part i of
// the output slice. All parts of both slices have the same length.
func Alltoall[T any](ctx context.Context, c *Comm, in, out []T) error {
	p, err := alltoallPlan(c, in, nil, out, nil)
	return c.do(ctx, p, err)
}

// Ialltoall begins an Alltoall.
func Ialltoall[T any](r *Request, c *Comm, in, out []T) error {
	p, err := alltoallPlan(c, in, nil, out, nil)
	return c.begin(r, p, err)
}

// Alltoallv works like Alltoall, for parts of different lengths. The slice inCounts holds the
// length of the part that this rank sends to each rank. The slice outCounts holds the length of the
// part that this rank receives from each rank. The sender and the receiver of a part must pass the
// same length for this part.
func Alltoallv[T any](ctx context.Context, c *Comm,
	in []T, inCounts []int, out []T, outCounts []int,
) error {
	p, err := alltoallPlan(c, in, inCounts, out, outCounts)
	return c.do(ctx, p, err)
}

// Ialltoallv begins an Alltoallv.
func Ialltoallv[T any](r *Request, c *Comm,
	in []T, inCounts []int, out []T, outCounts []int,
) error {
	p, err := alltoallPlan(c, in, inCounts, out, outCounts)
	return c.begin(r, p, err)
}

// ReduceScatter combines the input slices of all ranks, value by value, and copies each rank's part
// of the result to the output slice of that rank. The slice "counts" has the length of each rank's
// part. If "counts" is nil, all parts have the same length. The input slice and the output slice of
// a ReduceScatter may overlap in any way.
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

// Scan combines the input slices of the ranks from 0 to this rank, value by value, and stores the
// result in the output slice.
func Scan[T any](ctx context.Context, c *Comm, in, out []T, op Op[T]) error {
	p, err := scanPlan(in, out, op)
	return c.do(ctx, p, err)
}

// Iscan begins a Scan.
func Iscan[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := scanPlan(in, out, op)
	return c.begin(r, p, err)
}

// Exscan combines the input slices of all ranks lower than this rank, value by value, and stores
// the result in the output slice. At rank 0, Exscan does not change the output slice, which may be
// nil.
func Exscan[T any](ctx context.Context, c *Comm, in, out []T, op Op[T]) error {
	p, err := exscanPlan(c, in, out, op)
	return c.do(ctx, p, err)
}

// Iexscan begins an Exscan.
func Iexscan[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := exscanPlan(c, in, out, op)
	return c.begin(r, p, err)
}
