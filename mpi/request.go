package mpi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gobtl/pml"
)

// Status tells of a message that was received, or that a probe has found.
type Status struct {
	Source int // rank in the communicator
	Tag    int
	Count  int // whole values that were received; of a probe, bytes
}

// Request is a send, a receive or a collective operation that goes on while its caller does
// something else. Its memory is the caller's, who may use it again as often as it has ended, and
// must not copy or move it meanwhile. The zero value is ready. It belongs to one goroutine at a
// time. One that was begun must be waited for, or tested until it has ended.
type Request struct {
	p       pml.Request
	c       *Comm
	size    int // of a value, in bytes
	active  bool
	done    bool
	err     error
	receive bool
	nobody  bool // a receive from NoRank
	again   again
	waiter  *waiter
	next    *Request
}

// begin readies a request. The engine's mu is held.
func (r *Request) begin(c *Comm, size int, receive bool) error {
	if r.active {
		return ErrBusy
	}
	r.c, r.size, r.receive = c, size, receive
	r.active, r.done, r.nobody, r.err, r.again = true, false, false, nil, again{}
	r.p.OnDone, r.p.Context = ended, r
	return nil
}

// ended is told by the layer that a request has ended.
func ended(p *pml.Request) {
	r, _ := p.Context.(*Request)
	r.finish(p.Err())
}

// finish ends a request.
func (r *Request) finish(err error) {
	r.done, r.err = true, err
	r.c.e.end(r)
}

// result takes the end of a request: it can be used again. The engine's mu is held.
func (r *Request) result() (Status, error) {
	r.active, r.waiter = false, nil
	if r.nobody {
		return Status{Source: NoRank, Tag: AnyTag}, nil
	}
	if r.err != nil && errors.Is(r.err, pml.ErrPeer) && !isRankError(r.err) {
		if p := r.p.Peer(); p != nil { // of a message
			if rank, err := r.c.e.rankOf(p); err == nil {
				return Status{}, r.c.e.gone(rank, r.err)
			}
		}
		return Status{}, r.err
	}
	if !r.receive || r.err != nil && !errors.Is(r.err, ErrTruncated) {
		return Status{}, r.err
	}
	status, err := r.c.status(r.p.Peer(), r.p.Tag())
	status.Count = r.p.Len() / r.size
	if err == nil && r.p.Len()%r.size != 0 {
		err = fmt.Errorf("%w: %d bytes are no whole number of values of %d", ErrCount, r.p.Len(), r.size)
	}
	return status, errors.Join(r.err, err)
}

// Wait waits for the end of the request. When ctx ends first its error is returned, and the request
// is still under way: its memory is lent, and Wait must be called again. Errors: ErrInactive,
// ErrTruncated, ErrCancelled, ErrCount when the message is no whole number of values, a RankError,
// what broke, or the cause of ctx.
func (r *Request) Wait(ctx context.Context) (Status, error) {
	if ctx == nil {
		return Status{}, ErrContext
	}
	if !r.Active() {
		return Status{}, ErrInactive
	}
	e := r.c.e
	e.lock()
	defer e.unlock()
	if !r.done {
		w := e.newWaiter(1)
		r.waiter = w
		err := e.wait(ctx, w)
		r.waiter = nil
		e.freeWaiter(w)
		if err != nil && !r.done {
			return Status{}, err
		}
	}
	return r.result()
}

// Test says whether the request has ended, and if so with what, as Wait does. It makes a pass when
// it has not.
func (r *Request) Test() (ended bool, s Status, err error) {
	if !r.Active() {
		return true, Status{}, ErrInactive
	}
	e := r.c.e
	e.lock()
	defer e.unlock()
	if !r.done && !e.driving {
		e.pass()
	}
	if !r.done {
		return e.broken != nil, Status{}, e.broken
	}
	s, err = r.result()
	return true, s, err
}

// Cancel cancels a receive that has not been matched, which ends with ErrCancelled: Wait tells. It
// reports false for others, which go on.
func (r *Request) Cancel() bool {
	if !r.Active() {
		return false
	}
	r.c.e.lock()
	defer r.c.e.unlock()
	return r.receive && !r.done && r.c.e.l.Cancel(&r.p)
}

// Active says whether the request was begun and its end was not told yet. A nil request never is:
// it is MPI_REQUEST_NULL, to Wait, Test and the functions of several as well.
func (r *Request) Active() bool { return r != nil && r.active }

// WaitAll waits until all requests have ended; those that are not active count as such. statuses,
// unless it is nil, gets the status of each. The errors of all are joined, each with the index of
// its request. When ctx ends first, those that have not ended are active still.
func WaitAll(ctx context.Context, statuses []Status, requests ...*Request) error {
	if ctx == nil {
		return ErrContext
	}
	if statuses != nil && len(statuses) != len(requests) {
		return fmt.Errorf("%w: %d statuses for %d requests", ErrCount, len(statuses), len(requests))
	}
	e, err := engineOf(requests)
	if e == nil {
		return err
	}
	e.lock()
	defer e.unlock()
	err = e.waitFor(ctx, requests, len(requests))
	for i, r := range requests {
		if !hasEnded(r) {
			continue
		}
		s, failed := r.result()
		if statuses != nil {
			statuses[i] = s
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("request %d: %w", i, failed))
		}
	}
	return err
}

// WaitAny waits until one of the requests has ended, and tells which and how: the first in the
// list if there are several. -1 means that none is active.
func WaitAny(ctx context.Context, requests ...*Request) (int, Status, error) {
	if ctx == nil {
		return -1, Status{}, ErrContext
	}
	e, err := engineOf(requests)
	if e == nil {
		return -1, Status{}, err
	}
	e.lock()
	defer e.unlock()
	err = e.waitFor(ctx, requests, 1)
	if i := slices.IndexFunc(requests, hasEnded); i >= 0 {
		s, err := requests[i].result()
		return i, s, err
	}
	return -1, Status{}, err
}

// WaitSome waits until one of the requests has ended, at least, and appends to indices those that
// have, which are active until their Wait or Test, at once, tells how they ended.
func WaitSome(ctx context.Context, indices []int, requests ...*Request) ([]int, error) {
	if ctx == nil {
		return indices, ErrContext
	}
	e, err := engineOf(requests)
	if e == nil {
		return indices, err
	}
	e.lock()
	defer e.unlock()
	err = e.waitFor(ctx, requests, 1)
	had := len(indices)
	for i, r := range requests {
		if hasEnded(r) {
			indices = append(indices, i)
		}
	}
	if len(indices) > had {
		err = nil
	}
	return indices, err
}

// TestAll says whether all requests have ended; if so it is WaitAll, else nothing has happened but
// a pass.
func TestAll(statuses []Status, requests ...*Request) (bool, error) {
	e, err := engineOf(requests)
	if e == nil {
		return err == nil, err
	}
	e.lock()
	if !e.driving {
		e.pass()
	}
	under := slices.ContainsFunc(requests, func(r *Request) bool { return r.Active() && !r.done })
	err = e.broken
	e.unlock()
	if under {
		return err != nil, err
	}
	return true, WaitAll(context.Background(), statuses, requests...)
}

// TestAny makes a pass, and tells of the first request that has ended, if there is one: else -1.
func TestAny(requests ...*Request) (int, Status, error) {
	e, err := engineOf(requests)
	if e == nil {
		return -1, Status{}, err
	}
	e.lock()
	defer e.unlock()
	if !e.driving {
		e.pass()
	}
	if i := slices.IndexFunc(requests, hasEnded); i >= 0 {
		s, err := requests[i].result()
		return i, s, err
	}
	return -1, Status{}, e.broken
}

// TestSome makes a pass, and appends to indices those of the requests that have ended, which are
// active until their Wait or Test, at once, tells how (MPI_Testsome).
func TestSome(indices []int, requests ...*Request) ([]int, error) {
	e, err := engineOf(requests)
	if e == nil {
		return indices, err
	}
	e.lock()
	defer e.unlock()
	if !e.driving {
		e.pass()
	}
	had := len(indices)
	for i, r := range requests {
		if hasEnded(r) {
			indices = append(indices, i)
		}
	}
	if len(indices) > had {
		return indices, nil
	}
	return indices, e.broken
}

func hasEnded(r *Request) bool { return r.Active() && r.done }

// engineOf is the engine of the active requests, nil if there is none: one call waits for those of
// one World, as in MPI for those of one session.
func engineOf(requests []*Request) (e *engine, err error) {
	for _, r := range requests {
		switch {
		case !r.Active():
		case e == nil:
			e = r.c.e
		case e != r.c.e:
			return nil, ErrWorlds
		}
	}
	return e, nil
}

// waitFor waits until so many of the requests have ended, or all that are active: one that is there
// twice ends once. mu is held.
func (e *engine) waitFor(ctx context.Context, requests []*Request, enough int) error {
	w := e.newWaiter(0)
	running, done := 0, 0
	for _, r := range requests {
		switch {
		case hasEnded(r):
			done++
		case r.Active() && r.waiter != w:
			running++
			r.waiter = w
		}
	}
	w.left = running
	if enough < len(requests) {
		w.left = min(enough-done, running)
	}
	var err error
	if w.left > 0 {
		err = e.wait(ctx, w)
	}
	for _, r := range requests {
		if r.Active() {
			r.waiter = nil
		}
	}
	e.freeWaiter(w)
	return err
}
