package mpi

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"gobtl/mpi/coll"
	"gobtl/pml"
)

// The type "plan" holds the arguments of a collective operation.
type plan struct {
	does       func(s *coll.Schedule, p *plan)
	in, out    []byte
	size, root int // size of a value in bytes, rank of the root
	inParts    coll.Parts
	outParts   coll.Parts
	fold       coll.Fold
	commutes   bool
	tag        int // tag of the messages: see turn
}

// operation is a collective operation in progress.
type operation struct {
	coll.Schedule
	plan plan
	c    *Comm
	tag  int
	r    *Request
	done func(error)
	next *operation
	// The function "combine" calls the reduction function of the operation. If the reduction
	// function panics, "combine" stores an error with the value of the panic in the field
	// "panicked".
	combine  coll.Fold
	panicked error
}

// Send implements coll.Port.
func (o *operation) Send(r *pml.Request, to int, data []byte) error {
	e := o.c.e
	if o.c.failed != nil {
		return o.c.failed
	}
	p, err := e.peer(o.c.ranks[to])
	if err != nil {
		return err
	}
	err = e.l.Send(e.now(), r, p, o.c.context|1<<innerShift|uint64(o.tag), data, pml.Standard)
	return o.failed(o.c.ranks[to], err)
}

// Recv implements coll.Port.
func (o *operation) Recv(r *pml.Request, from int, data []byte) error {
	e := o.c.e
	if o.c.failed != nil {
		return o.c.failed
	}
	p, err := e.peer(o.c.ranks[from])
	if err != nil {
		return err
	}
	r.Exact = true
	tag := o.c.context | 1<<innerShift | uint64(o.tag)
	if e.l.Post(r, p, tag, ^uint64(0), data) {
		return nil
	}
	err = e.l.Recv(e.lately(), r, p, tag, ^uint64(0), data)
	return o.failed(o.c.ranks[from], err)
}

// Skip implements coll.Port.
func (o *operation) Skip(from int) {
	_ = o.Recv(new(pml.Request), from, nil) // An error means a dead rank, which sends nothing.
}

// Cancel implements coll.Port. If the communicator was revoked or has failed, Cancel abandons sends
// that no receive has matched, because the destination rank might never create the communicator.
func (o *operation) Cancel(r *pml.Request) bool {
	l := o.c.e.l
	return l.Cancel(r) || o.c.failed != nil && l.Abandon(r, o.c.failed)
}

func (o *operation) failed(rank int, err error) error {
	if err != nil {
		return o.c.e.gone(rank, err)
	}
	return nil
}

func (o *operation) end(err error) {
	r, e := o.r, o.c.e
	if failed := o.Failed(); failed != nil && !isRankError(err) {
		err = o.c.blame(failed.Peer(), err)
	}
	if err == nil {
		err = o.panicked
	}
	under := o.c.under
	if at := slices.Index(under, o); at >= 0 {
		last := len(under) - 1
		under[at], under[last] = under[last], nil
		o.c.under = under[:last]
	}
	o.r, o.c, o.plan, o.panicked = nil, nil, plan{}, nil
	o.next, e.operations = e.operations, o
	r.finish(err)
}

// The method "blame" returns the error "err" of a message of a collective operation, together with
// the number of the rank with which this rank exchanged the message.
func (c *Comm) blame(p *pml.Peer, err error) error {
	world, unknown := c.e.rankOf(p)
	switch {
	case unknown != nil:
		return err
	case errors.Is(err, pml.ErrPeer):
		return c.e.gone(world, err)
	case errors.Is(err, pml.ErrShort), errors.Is(err, pml.ErrTruncated):
		rank, _ := c.rankIn(world)
		return fmt.Errorf("%w: from rank %d, or from one behind it: %w", ErrCount, rank, err)
	}
	return err
}

// The method "fold" combines values by the reduction function of the operation. The goroutine that
// polls the transport calls the method "fold", and this goroutine is not necessarily the one that
// has begun the operation. If the reduction function of the program panics, the panic becomes the
// error of the operation. After a panic, the operation continues to send messages, so that no rank
// waits for this rank for ever.
func (o *operation) fold(acc, x []byte, xFirst bool) {
	returned := false
	defer func() {
		switch why := recover(); {
		case why != nil && o.panicked == nil:
			o.panicked = &OpError{Panic: why, Stack: debug.Stack()}
		case why == nil && !returned && o.c.e.broken == nil:
			// The reduction function of the program has called runtime.Goexit, and has thereby
			// ended the goroutine that was polling the transport.
			o.c.e.broken = &OpError{Panic: "it has ended its goroutine", Stack: debug.Stack()}
		}
	}()
	o.plan.fold(acc, x, xFirst)
	returned = true
}

// The method "collective" begins a collective operation. The caller must hold mu.
func (c *Comm) collective(r *Request, p plan) error {
	e := c.e
	if e.broken != nil {
		return e.broken
	}
	if c.failed != nil {
		return c.failed
	}
	if p.root < 0 || p.root >= len(c.ranks) {
		return fmt.Errorf("%w: root %d of %d", ErrRank, p.root, len(c.ranks))
	}
	if err := r.begin(c, 1, false); err != nil {
		return err
	}
	r.p = pml.Request{} // r.p must not name a peer
	o := e.operations
	if o == nil {
		o = new(operation)
		o.done, o.combine = o.end, o.fold
	} else {
		e.operations = o.next
	}
	o.c, o.r, o.plan = c, r, p
	o.tag = p.tag
	o.Reset(c.rank, len(c.ranks), o.combine)
	p.does(&o.Schedule, &o.plan)
	c.under = append(c.under, o)
	o.Start(o, o.done)
	return nil
}

// persistentBit is set in the tags of persistent collective operations.
const persistentBit = (TagMax + 1) / 2

// The method "turn" returns the tag of the next collective operation in this communicator. A
// collective call uses up a tag even if the call returns an error, because a collective operation
// has the same tag at all ranks. The caller must hold mu.
func (c *Comm) turn() (tag int) {
	tag = c.calls % persistentBit
	c.calls++
	return tag
}

// persistentTurn returns the tag of the next persistent collective operation. The tag of a
// persistent operation depends on the order of the Init calls, and not on the order of the Start
// calls. The caller must hold mu.
func (c *Comm) persistentTurn() (tag int) {
	tag = persistentBit | c.readied%persistentBit
	c.readied++
	return tag
}

// The method "refuse" uses up the tag of an invalid collective call, and returns the error of the
// call.
func (c *Comm) refuse(err error) error {
	c.e.lock()
	defer c.e.unlock()
	c.turn()
	return err
}

// The method "refuseSplit" uses up the tags of an invalid call that begins with a Split, and
// returns the error of the call. A Split consists of two collective operations.
func (c *Comm) refuseSplit(err error) error { return c.refuse(c.refuse(err)) }

// The method "begin" begins a collective operation with the request r. If the argument "err" is not
// nil, the arguments of the operation were invalid, and the method "begin" uses up a tag and
// returns "err". The method "do" begins a collective operation like the method "begin", and in
// addition waits for its end.
func (c *Comm) begin(r *Request, p plan, err error) error {
	if err != nil {
		return c.refuse(err)
	}
	c.e.lock()
	defer c.e.unlock()
	p.tag = c.turn()
	return c.collective(r, p)
}

func (c *Comm) do(ctx context.Context, p plan, err error) error {
	switch {
	case err != nil:
		return c.refuse(err)
	case ctx == nil:
		return c.refuse(ErrContext)
	}
	e := c.e
	e.lock()
	defer e.unlock()
	p.tag = c.turn()
	r := e.requests.get()
	if err := c.collective(r, p); err != nil {
		e.requests.put(r)
		return err
	}
	_, err = e.complete(ctx, r)
	return err
}

// planOf returns the arguments (plan) of a collective operation whose input slice and output slice
// have the same element type.
func planOf[T any](in, out []T, root int, does func(*coll.Schedule, *plan)) (p plan, err error) {
	p = plan{does: does, size: sizeOf[T](), root: root}
	if p.in, err = bytesOf(in); err == nil {
		p.out, err = bytesOf(out)
	}
	return p, err
}

// partsOf converts numbers of values to sizes in bytes. If the slice "counts" is nil, the number of
// values of each rank is the argument "each". If the argument "want" is not -1, the sum of the
// numbers of values of all ranks must equal "want".
func (p *plan) partsOf(counts []int, ranks, each, want int) (coll.Parts, error) {
	if counts != nil && len(counts) != ranks {
		return nil, fmt.Errorf("%w: %d counts for %d ranks", ErrCount, len(counts), ranks)
	}
	parts, sum := make(coll.Parts, ranks), 0
	for i := range parts {
		n := each
		if counts != nil {
			n = counts[i]
		}
		if n < 0 {
			return nil, fmt.Errorf("%w: rank %d has %d values", ErrCount, i, n)
		}
		parts[i] = n * p.size
		sum += n
	}
	if want >= 0 && sum != want {
		return nil, fmt.Errorf("%w: %d values in all, and a slice of %d", ErrCount, sum, want)
	}
	return parts, nil
}

func barrierPlan() plan { return plan{does: func(s *coll.Schedule, _ *plan) { s.Barrier() }} }

func bcastPlan[T any](data []T, root int) (plan, error) {
	return planOf(nil, data, root, bcastSteps)
}

// sameLength returns the plan of a reduction. If the argument outHere is true, this rank gets the
// result of the reduction, and the output slice must have the same length as the input slice.
func sameLength[T any](in, out []T, op Op[T], root int, outHere bool,
	does func(*coll.Schedule, *plan),
) (plan, error) {
	if op.fold == nil {
		return plan{}, fmt.Errorf("%w: an Op that NewOp has not made", ErrConfig)
	}
	if outHere && len(in) != len(out) {
		return plan{}, fmt.Errorf("%w: %d values are reduced to %d", ErrCount, len(in), len(out))
	}
	p, err := planOf(in, out, root, does)
	if err == nil && outHere {
		err = apart(p.in, p.out, p.out)
	}
	p.fold, p.commutes = op.fold, op.commutes
	return p, err
}

func reducePlan[T any](c *Comm, in, out []T, op Op[T], root int) (plan, error) {
	return sameLength(in, out, op, root, c.rank == root, reduceSteps)
}

func allreducePlan[T any](in, out []T, op Op[T]) (plan, error) {
	return sameLength(in, out, op, 0, true, allreduceSteps)
}

func scanPlan[T any](in, out []T, op Op[T]) (plan, error) {
	return sameLength(in, out, op, 0, true, scanSteps)
}

func exscanPlan[T any](c *Comm, in, out []T, op Op[T]) (plan, error) {
	return sameLength(in, out, op, 0, c.rank > 0, exscanSteps)
}

func reduceScatterPlan[T any](c *Comm, in, out []T, counts []int, op Op[T]) (plan, error) {
	p, err := sameLength(in, out, op, 0, false, reduceScatterSteps)
	if err == nil {
		p.outParts, err = p.partsOf(counts, len(c.ranks), len(out), len(in))
	}
	if err == nil && p.outParts[c.rank] != len(p.out) {
		err = fmt.Errorf("%w: %d values for this rank, not as counts say", ErrCount, len(out))
	}
	return p, err
}

// gatherPlan returns the arguments (plan) of a Gather or an Allgather. If the argument "whole" is
// true, this rank receives the parts of all ranks in its output slice.
func gatherPlan[T any](c *Comm, in, out []T, counts []int, root int, whole bool,
	does func(*coll.Schedule, *plan),
) (plan, error) {
	p, err := planOf(in, out, root, does)
	want := -1
	if whole {
		want = len(out)
	}
	if err == nil {
		p.outParts, err = p.partsOf(counts, len(c.ranks), len(in), want)
	}
	if err == nil && p.outParts[c.rank] != len(p.in) {
		err = fmt.Errorf("%w: %d values of this rank, not as counts say", ErrCount, len(in))
	}
	if err == nil && whole {
		err = apart(p.in, p.out, p.outParts.Of(c.rank, p.out))
	}
	return p, err
}

func scatterPlan[T any](c *Comm, in, out []T, counts []int, root int) (plan, error) {
	p, err := planOf(in, out, root, scatterSteps)
	want := -1
	if c.rank == root {
		want = len(in)
	}
	if err == nil {
		p.inParts, err = p.partsOf(counts, len(c.ranks), len(out), want)
	}
	if err == nil && p.inParts[c.rank] != len(p.out) {
		err = fmt.Errorf("%w: %d values for this rank, not as counts say", ErrCount, len(out))
	}
	if err == nil && c.rank == root {
		err = apart(p.out, p.in, p.inParts.Of(c.rank, p.in))
	}
	return p, err
}

func alltoallPlan[T any](c *Comm, in []T, inCounts []int, out []T, outCounts []int) (plan, error) {
	p, err := planOf(in, out, 0, alltoallSteps)
	n := len(c.ranks)
	if err == nil {
		p.inParts, err = p.partsOf(inCounts, n, len(in)/n, len(in))
	}
	if err == nil {
		p.outParts, err = p.partsOf(outCounts, n, len(out)/n, len(out))
	}
	if err == nil && p.inParts[c.rank] != p.outParts[c.rank] {
		err = fmt.Errorf("%w: this rank's part for itself is none of the same size", ErrCount)
	}
	if err == nil {
		var inPlace []byte
		if slices.Equal(p.inParts, p.outParts) {
			inPlace = p.out
		}
		err = apart(p.in, p.out, inPlace)
	}
	return p, err
}

// The functions below add the steps of a collective operation to a schedule.

func bcastSteps(s *coll.Schedule, p *plan)     { s.Bcast(p.out, p.size, p.root) }
func reduceSteps(s *coll.Schedule, p *plan)    { s.Reduce(p.in, p.out, p.root) }
func allreduceSteps(s *coll.Schedule, p *plan) { s.Allreduce(p.in, p.out, p.size, p.commutes) }
func scanSteps(s *coll.Schedule, p *plan)      { s.Scan(p.in, p.out) }
func exscanSteps(s *coll.Schedule, p *plan)    { s.Exscan(p.in, p.out) }
func gatherSteps(s *coll.Schedule, p *plan)    { s.Gather(p.in, p.out, p.outParts, p.root) }
func allgatherSteps(s *coll.Schedule, p *plan) { s.Allgather(p.in, p.out, p.outParts) }
func scatterSteps(s *coll.Schedule, p *plan)   { s.Scatter(p.in, p.out, p.inParts, p.root) }
func alltoallSteps(s *coll.Schedule, p *plan)  { s.Alltoall(p.in, p.inParts, p.out, p.outParts) }

func reduceScatterSteps(s *coll.Schedule, p *plan) {
	s.ReduceScatter(p.in, p.out, p.outParts, p.commutes)
}
