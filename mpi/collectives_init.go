package mpi

// Collective operations as persistent requests (MPI_Barrier_init and so on). Each function prepares
// r for one operation with the given arguments. Start begins the operation, again each time that r
// has ended. All ranks must make these calls in the same order, because the order matches the
// operations. They may start the operations in any order, also between other collective operations.
// A refused call counts in the order of the calls. Errors: ErrBusy, and the errors of the
// operation's arguments.

// BarrierInit readies r for a Barrier.
func BarrierInit(r *Request, c *Comm) error {
	return c.ready(r, barrierPlan(), nil)
}

// BcastInit readies r for a Bcast.
func BcastInit[T any](r *Request, c *Comm, data []T, root int) error {
	p, err := bcastPlan(data, root)
	return c.ready(r, p, err)
}

// ReduceInit readies r for a Reduce.
func ReduceInit[T any](r *Request, c *Comm, in, out []T, op Op[T], root int) error {
	p, err := reducePlan(c, in, out, op, root)
	return c.ready(r, p, err)
}

// AllreduceInit readies r for an Allreduce.
func AllreduceInit[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := allreducePlan(in, out, op)
	return c.ready(r, p, err)
}

// GatherInit readies r for a Gather.
func GatherInit[T any](r *Request, c *Comm, in, out []T, root int) error {
	p, err := gatherPlan(c, in, out, nil, root, c.rank == root, gatherSteps)
	return c.ready(r, p, err)
}

// GathervInit readies r for a Gatherv.
func GathervInit[T any](r *Request, c *Comm, in, out []T, counts []int, root int) error {
	p, err := gatherPlan(c, in, out, counts, root, c.rank == root, gatherSteps)
	return c.ready(r, p, err)
}

// ScatterInit readies r for a Scatter.
func ScatterInit[T any](r *Request, c *Comm, in, out []T, root int) error {
	p, err := scatterPlan(c, in, out, nil, root)
	return c.ready(r, p, err)
}

// ScattervInit readies r for a Scatterv.
func ScattervInit[T any](r *Request, c *Comm, in, out []T, counts []int, root int) error {
	p, err := scatterPlan(c, in, out, counts, root)
	return c.ready(r, p, err)
}

// AllgatherInit readies r for an Allgather.
func AllgatherInit[T any](r *Request, c *Comm, in, out []T) error {
	p, err := gatherPlan(c, in, out, nil, 0, true, allgatherSteps)
	return c.ready(r, p, err)
}

// AllgathervInit readies r for an Allgatherv.
func AllgathervInit[T any](r *Request, c *Comm, in, out []T, counts []int) error {
	p, err := gatherPlan(c, in, out, counts, 0, true, allgatherSteps)
	return c.ready(r, p, err)
}

// AlltoallInit readies r for an Alltoall.
func AlltoallInit[T any](r *Request, c *Comm, in, out []T) error {
	p, err := alltoallPlan(c, in, nil, out, nil)
	return c.ready(r, p, err)
}

// AlltoallvInit readies r for an Alltoallv.
func AlltoallvInit[T any](r *Request, c *Comm,
	in []T, inCounts []int, out []T, outCounts []int,
) error {
	p, err := alltoallPlan(c, in, inCounts, out, outCounts)
	return c.ready(r, p, err)
}

// ReduceScatterInit readies r for a ReduceScatter.
func ReduceScatterInit[T any](r *Request, c *Comm, in, out []T, counts []int, op Op[T]) error {
	p, err := reduceScatterPlan(c, in, out, counts, op)
	return c.ready(r, p, err)
}

// ScanInit readies r for a Scan.
func ScanInit[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := scanPlan(in, out, op)
	return c.ready(r, p, err)
}

// ExscanInit readies r for an Exscan.
func ExscanInit[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := exscanPlan(c, in, out, op)
	return c.ready(r, p, err)
}
