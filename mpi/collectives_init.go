package mpi

// The Init functions, such as BarrierInit, prepare collective operations as persistent requests
// (MPI_Barrier_init and so on). Each Init function prepares the Request r for one collective
// operation with the given arguments. The method Start of the Request begins the prepared
// operation, and may be called again whenever the operation has ended. All ranks must call the Init
// functions in the same order, because the operations of the ranks match in the order of the Init
// calls. Each rank may start the prepared operations in any order, and may call ordinary collective
// operations between two starts. In the order of the Init calls, an Init call that returns an error
// counts like a successful Init call. The errors of an Init function are ErrBusy and the errors
// that the collective operation returns for invalid arguments.

// BarrierInit prepares r for a Barrier.
func BarrierInit(r *Request, c *Comm) error {
	return c.ready(r, barrierPlan(), nil)
}

// BcastInit prepares r for a Bcast.
func BcastInit[T any](r *Request, c *Comm, data []T, root int) error {
	p, err := bcastPlan(data, root)
	return c.ready(r, p, err)
}

// ReduceInit prepares r for a Reduce.
func ReduceInit[T any](r *Request, c *Comm, in, out []T, op Op[T], root int) error {
	p, err := reducePlan(c, in, out, op, root)
	return c.ready(r, p, err)
}

// AllreduceInit prepares r for an Allreduce.
func AllreduceInit[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := allreducePlan(in, out, op)
	return c.ready(r, p, err)
}

// GatherInit prepares r for a Gather.
func GatherInit[T any](r *Request, c *Comm, in, out []T, root int) error {
	p, err := gatherPlan(c, in, out, nil, root, c.rank == root, gatherSteps)
	return c.ready(r, p, err)
}

// GathervInit prepares r for a Gatherv.
func GathervInit[T any](r *Request, c *Comm, in, out []T, counts []int, root int) error {
	p, err := gatherPlan(c, in, out, counts, root, c.rank == root, gatherSteps)
	return c.ready(r, p, err)
}

// ScatterInit prepares r for a Scatter.
func ScatterInit[T any](r *Request, c *Comm, in, out []T, root int) error {
	p, err := scatterPlan(c, in, out, nil, root)
	return c.ready(r, p, err)
}

// ScattervInit prepares r for a Scatterv.
func ScattervInit[T any](r *Request, c *Comm, in, out []T, counts []int, root int) error {
	p, err := scatterPlan(c, in, out, counts, root)
	return c.ready(r, p, err)
}

// AllgatherInit prepares r for an Allgather.
func AllgatherInit[T any](r *Request, c *Comm, in, out []T) error {
	p, err := gatherPlan(c, in, out, nil, 0, true, allgatherSteps)
	return c.ready(r, p, err)
}

// AllgathervInit prepares r for an Allgatherv.
func AllgathervInit[T any](r *Request, c *Comm, in, out []T, counts []int) error {
	p, err := gatherPlan(c, in, out, counts, 0, true, allgatherSteps)
	return c.ready(r, p, err)
}

// AlltoallInit prepares r for an Alltoall.
func AlltoallInit[T any](r *Request, c *Comm, in, out []T) error {
	p, err := alltoallPlan(c, in, nil, out, nil)
	return c.ready(r, p, err)
}

// AlltoallvInit prepares r for an Alltoallv.
func AlltoallvInit[T any](r *Request, c *Comm,
	in []T, inCounts []int, out []T, outCounts []int,
) error {
	p, err := alltoallPlan(c, in, inCounts, out, outCounts)
	return c.ready(r, p, err)
}

// ReduceScatterInit prepares r for a ReduceScatter.
func ReduceScatterInit[T any](r *Request, c *Comm, in, out []T, counts []int, op Op[T]) error {
	p, err := reduceScatterPlan(c, in, out, counts, op)
	return c.ready(r, p, err)
}

// ScanInit prepares r for a Scan.
func ScanInit[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := scanPlan(in, out, op)
	return c.ready(r, p, err)
}

// ExscanInit prepares r for an Exscan.
func ExscanInit[T any](r *Request, c *Comm, in, out []T, op Op[T]) error {
	p, err := exscanPlan(c, in, out, op)
	return c.ready(r, p, err)
}
