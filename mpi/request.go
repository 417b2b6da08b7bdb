package mpi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gobtl/pml"
)

// Status describes a message that was received, or that a probe has found.
type Status struct {
	Source int // rank in the communicator
	Tag    int
	Count  int // number of whole values received, or number of bytes for a probe
}

// Request is a send, a receive or a collective operation that was begun and continues in the
// background. The caller owns the memory of the Request. The caller may reuse a Request that has
// ended, but must not copy or move a Request that is active. The zero value is ready for use. A
// Request belongs to one goroutine at a time. For each Request that was started, the caller must
// call Wait, or call Test until the Request has ended.
type Request struct {
	p       pml.Request
	c       *Comm
	size    int // size of a value in bytes
	active  bool
	done    bool
	err     error
	receive bool
	nobody  bool // a receive from NoRank
	again   again
	waiter  *waiter
	next    *Request
}

// The method "begin" prepares a request for a send or a receive. The caller must hold the engine's
// mu.
func (r *Request) begin(c *Comm, size int, receive bool) error {
	if r.active {
		return ErrBusy
	}
	r.c, r.size, r.receive = c, size, receive
	r.active, r.done, r.nobody, r.err, r.again = true, false, false, nil, again{}
	r.p.OnDone, r.p.Context = ended, r
	return nil
}

func ended(p *pml.Request) {
	r, _ := p.Context.(*Request)
	r.finish(p.Err())
}

// The method "finish" ends a request. If a call waits for the request and for no other unfinished
// request, the method "finish" wakes this call.
func (r *Request) finish(err error) {
	r.done, r.err = true, err
	if w := r.waiter; w != nil {
		r.waiter = nil
		r.c.e.waiters.countDown(w)
	}
}

// The method "result" returns the result of a request that has ended, and makes the request
// inactive. The caller must hold the engine's mu.
func (r *Request) result() (Status, error) {
	r.active, r.waiter = false, nil
	if r.nobody {
		return Status{Source: NoRank, Tag: AnyTag}, nil
	}
	if r.err != nil && errors.Is(r.err, pml.ErrPeer) && !isRankError(r.err) {
		if p := r.p.Peer(); p != nil { // the request of a message
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

// Wait waits for the end of the request. If ctx ends before the request ends, Wait returns the
// cause of ctx. After Wait has returned the cause of ctx, the request remains in progress and uses
// the memory of the message, and the caller must call Wait again. The errors of Wait are
// ErrInactive, ErrTruncated, ErrCancelled, a RankError, the failure of the transport, and the cause
// of ctx. If the size of the message is not a whole number of values, Wait returns ErrCount.
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
	if err := await(ctx, e, r); err != nil {
		return Status{}, err
	}
	return r.result()
}

// Test reports whether the request has ended. If the request has ended, Test returns the same
// result as Wait. If the request has not ended, Test polls the transport once.
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

// Cancel cancels a receive that no message has matched yet, and returns true. Wait returns
// ErrCancelled for a cancelled receive. If the request cannot be cancelled, Cancel returns false,
// and the request continues.
func (r *Request) Cancel() bool {
	if !r.Active() {
		return false
	}
	r.c.e.lock()
	defer r.c.e.unlock()
	return r.receive && !r.done && r.c.e.l.Cancel(&r.p)
}

// Active reports whether the request was started, and Wait or Test has not yet returned the result
// of the request. A nil request is never active. In all functions and methods that take a request,
// nil corresponds to MPI_REQUEST_NULL.
func (r *Request) Active() bool { return r != nil && r.active }

// WaitAll waits until all requests have ended. Inactive requests count as ended. If the slice
// "statuses" is not nil, WaitAll stores the Status of each request in this slice. The error of
// WaitAll joins the errors of all requests, each with the index of its request. If ctx ends before
// all requests have ended, the requests in progress remain active.
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

// WaitAny waits until one of the requests has ended, and returns the index and the result of the
// ended request. If several requests have ended, WaitAny chooses the request with the lowest index.
// If no request is active, the index is -1.
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

// WaitSome waits until at least one of the requests has ended, and appends the indices of all
// requests that have ended to the slice "indices". For each request whose index WaitSome has
// appended, the caller must then call Wait or Test, which returns the request's result without
// waiting and makes the request inactive.
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

// TestAll polls the transport once, and reports whether all requests have ended. If all requests
// have ended, TestAll returns the same error as WaitAll.
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

// TestAny polls the transport once. If requests have ended, TestAny returns the index and the
// result of the ended request with the lowest index. If no request has ended, the index is -1.
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

// TestSome polls the transport once, and appends the indices of all requests that have ended to the
// slice "indices" (MPI_Testsome). For each request whose index TestSome has appended, the caller
// must then call Wait or Test, which returns the request's result without waiting and makes the
// request inactive.
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

// engineOf returns the engine of the active requests, or nil if no request is active. If the
// requests belong to several Worlds, engineOf returns ErrWorlds, because one call can wait only for
// requests of the same World.
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

// waitFor waits until at least "enough" requests have ended, or until all active requests have
// ended. A request that is listed twice is counted once. The caller must hold mu.
func (e *engine) waitFor(ctx context.Context, requests []*Request, enough int) error {
	w := e.waiters.get(0)
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
	e.waiters.put(w)
	return err
}

// A requestPool keeps the requests of blocking calls for reuse. The zero value is an empty pool.
// The engine's mu guards each requestPool.
type requestPool struct {
	free *Request // linked by next
}

// The method "get" returns a request for a blocking call.
func (p *requestPool) get() *Request {
	r := p.free
	if r == nil {
		return new(Request)
	}
	p.free, r.next = r.next, nil
	return r
}

// The method "put" removes the references to the caller's memory from a request that has ended, and
// stores the request for reuse.
func (p *requestPool) put(r *Request) {
	*r = Request{next: p.free}
	p.free = r
}
