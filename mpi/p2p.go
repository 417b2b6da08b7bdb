package mpi

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gobtl/pml"
)

const (
	// AnySource is the source of a receive that accepts a message from any rank of the
	// communicator.
	AnySource = -1
	// AnyTag is the tag of a receive that accepts a message with any tag.
	AnyTag = -1
	// TagMax is the largest tag that a message can have.
	TagMax = 1<<tagBits - 1
	// NoRank is the null process (MPI_PROC_NULL). A send to NoRank or a receive from NoRank ends at
	// once, without a message.
	NoRank = -2
)

// Send sends the slice "data" to a rank, and returns as soon as the program may change this slice
// again. A small message is copied, and Send returns at once. For a large message, Send returns
// when the receiver has received the data. If ctx ends while the send is in progress, the error
// includes ErrInUse, which means that the library might still read the slice "data". The errors of
// Send are ErrRank, ErrTag, ErrType, a RankError, ErrFinalized, the failure of the transport, and
// the cause of ctx.
func Send[T any](ctx context.Context, c *Comm, data []T, to, tag int) error {
	return sendMode(ctx, c, data, to, tag, pml.Standard)
}

// SendSync works like Send, in MPI's synchronous mode. SendSync returns only after a receive has
// matched the message.
func SendSync[T any](ctx context.Context, c *Comm, data []T, to, tag int) error {
	return sendMode(ctx, c, data, to, tag, pml.Synchronous)
}

func sendMode[T any](ctx context.Context, c *Comm, data []T, to, tag int, mode pml.Mode) error {
	b, err := bytesOf(data)
	if err != nil {
		return err
	}
	return c.send(ctx, b, nil, to, tag, mode)
}

// The method "send" performs a blocking send of the memory b, or of the layout l if l is not nil.
func (c *Comm) send(ctx context.Context, b []byte, l *shape, to, tag int, mode pml.Mode) error {
	if ctx == nil {
		return ErrContext
	}
	e := c.e
	e.lock()
	defer e.unlock()
	if l == nil && mode == pml.Standard && c.trySend(b, to, tag) {
		e.due()
		return nil
	}
	r := e.requests.get()
	if err := c.beginSend(r, b, to, tag, mode, l); err != nil {
		e.requests.put(r)
		return err
	}
	if r.done {
		e.due()
	}
	_, err := e.complete(ctx, r)
	return err
}

// Recv receives the earliest message from a rank (or AnySource) with a tag (or AnyTag) into the
// slice "data". A message shorter than the slice fills the beginning of the slice, and Status.Count
// is the number of values in the message. If ctx ends and no message has arrived, Recv cancels the
// receive. If a part of a message has arrived when ctx ends, the error includes ErrInUse, which
// means that the library might still write to the slice "data". The errors of Recv are ErrRank,
// ErrTag, ErrType, and the errors of Request.Wait.
func Recv[T any](ctx context.Context, c *Comm, data []T, from, tag int) (Status, error) {
	b, err := bytesOf(data)
	if err != nil {
		return Status{}, err
	}
	return c.recv(ctx, b, nil, sizeOf[T](), from, tag)
}

// The method "recv" performs a blocking receive into the memory b, or into the layout l if l is not
// nil.
func (c *Comm) recv(ctx context.Context, b []byte, l *shape, size, from, tag int) (Status, error) {
	if ctx == nil {
		return Status{}, ErrContext
	}
	e := c.e
	e.lock()
	defer e.unlock()
	r := e.requests.get()
	if err := c.beginRecv(r, b, size, from, tag, l); err != nil {
		e.requests.put(r)
		return Status{}, err
	}
	return e.complete(ctx, r)
}

// Isend begins to send data to a rank. Until the request r has ended, the program must not change
// the slice "data". The errors of Isend are ErrBusy, ErrRank, ErrTag, ErrType, a RankError, and
// ErrFinalized.
func Isend[T any](r *Request, c *Comm, data []T, to, tag int) error {
	return isendMode(r, c, data, to, tag, pml.Standard)
}

// IsendSync works like Isend, in MPI's synchronous mode. The request of a synchronous send ends
// only after a receive has matched the message.
func IsendSync[T any](r *Request, c *Comm, data []T, to, tag int) error {
	return isendMode(r, c, data, to, tag, pml.Synchronous)
}

func isendMode[T any](r *Request, c *Comm, data []T, to, tag int, mode pml.Mode) error {
	b, err := bytesOf(data)
	if err != nil {
		return err
	}
	c.e.lock()
	defer c.e.unlock()
	return c.beginSend(r, b, to, tag, mode, nil)
}

// Irecv begins to receive a message into the slice "data", in the same way as Recv. Until the
// request r has ended, the program must not access the slice "data". The errors of Irecv are
// ErrBusy, ErrRank, ErrTag, ErrType, a RankError, and ErrFinalized.
func Irecv[T any](r *Request, c *Comm, data []T, from, tag int) error {
	b, err := bytesOf(data)
	if err != nil {
		return err
	}
	c.e.lock()
	defer c.e.unlock()
	return c.beginRecv(r, b, sizeOf[T](), from, tag, nil)
}

// Sendrecv sends the slice "data" to the rank "to", and receives a message from the rank "from"
// into the slice "room". The send and the receive can complete in any order. The slices "data" and
// "room" must not overlap (ErrConfig). If ctx ends while the send or the receive of a Sendrecv is
// in progress, the error includes ErrInUse, which means that the library might still use both
// slices. If the send cannot begin, Sendrecv receives nothing. If the send begins and then fails,
// and the message from the rank "from" has already arrived, Sendrecv returns the Status of this
// message together with the error of the send. The errors of Sendrecv are those of Send and Recv.
func Sendrecv[S, R any](ctx context.Context, c *Comm, data []S, to, tag int, room []R,
	from, fromTag int,
) (Status, error) {
	if ctx == nil {
		return Status{}, ErrContext
	}
	out, err := bytesOf(data)
	if err != nil {
		return Status{}, err
	}
	in, err := bytesOf(room)
	if err == nil {
		err = apart(out, in, nil)
	}
	if err != nil {
		return Status{}, err
	}
	e := c.e
	e.lock()
	defer e.unlock()
	if err := c.reachable(to, tag); err != nil {
		return Status{}, err
	}
	recv, send := e.requests.get(), e.requests.get()
	if err := c.beginRecv(recv, in, sizeOf[R](), from, fromTag, nil); err != nil {
		e.requests.put(recv)
		e.requests.put(send)
		return Status{}, err
	}
	if err := c.beginSend(send, out, to, tag, pml.Standard, nil); err != nil {
		e.requests.put(send)
		return e.leave(recv, err)
	}
	status, err := e.complete(ctx, recv)
	_, sent := e.complete(ctx, send)
	return status, errors.Join(err, sent)
}

// Probe waits for a message that a Recv with the same arguments would receive. Probe returns the
// Status of the message that it has found, but does not receive the message. The errors of Probe
// are those of Recv.
func Probe(ctx context.Context, c *Comm, from, tag int) (Status, error) {
	if ctx == nil {
		return Status{}, ErrContext
	}
	e := c.e
	e.lock()
	defer e.unlock()
	who, want, mask, err := c.criteria(from, tag)
	if err != nil || from == NoRank {
		return Status{Source: NoRank, Tag: AnyTag}, err
	}
	var found pml.Info
	w := e.waiters.get(1)
	w.ready = func() (ok bool) {
		c.dropOutsiders(from, want, mask)
		found, ok = e.l.Probe(who, want, mask)
		return ok || c.revoked != nil || who != nil && who.Err() != nil
	}
	err = e.wait(ctx, w)
	e.waiters.put(w)
	switch {
	case err != nil:
		return Status{}, err
	case found.Peer == nil && c.revoked != nil:
		return Status{}, c.revoked
	case found.Peer == nil:
		return Status{}, e.gone(c.ranks[from], who.Err())
	}
	s, err := c.status(found.Peer, found.Tag)
	s.Count = int(min(found.Size, math.MaxInt))
	return s, err
}

// Iprobe works like Probe, but does not wait for a message. Iprobe polls the transport once, and
// reports whether a matching message has arrived.
func Iprobe(c *Comm, from, tag int) (bool, Status, error) {
	e := c.e
	e.lock()
	defer e.unlock()
	who, want, mask, err := c.criteria(from, tag)
	if err != nil || from == NoRank {
		return err == nil, Status{Source: NoRank, Tag: AnyTag}, err
	}
	if !e.driving {
		e.pass()
	}
	c.dropOutsiders(from, want, mask)
	found, ok := e.l.Probe(who, want, mask)
	if !ok {
		return false, Status{}, c.noMessage(who, from)
	}
	s, err := c.status(found.Peer, found.Tag)
	s.Count = int(min(found.Size, math.MaxInt))
	return true, s, err
}

// beginSend begins to send the memory b, or the layout l if l is not nil. The caller must hold mu.
func (c *Comm) beginSend(r *Request, b []byte, to, tag int, mode pml.Mode, l *shape) error {
	e := c.e
	if err := c.sendable(to, tag); err != nil {
		return err
	}
	if err := r.begin(c, 1, false); err != nil {
		return err
	}
	if to == NoRank {
		r.done = true
		return nil
	}
	r.p.Layout = l.layout()
	if l == nil && mode == pml.Standard && c.trySend(b, to, tag) {
		r.done = true
		return nil
	}
	p, err := e.peer(c.ranks[to])
	if err == nil {
		err = e.l.Send(e.lately(), &r.p, p, c.context|uint64(tag), b, mode)
		if errors.Is(err, pml.ErrPeer) {
			err = e.gone(c.ranks[to], err)
		}
	}
	r.active = err == nil
	return err
}

// trySend sends a message if the message is small and can be sent at once. The result of trySend
// tells whether the message was sent. The caller must hold mu.
func (c *Comm) trySend(b []byte, to, tag int) bool {
	e := c.e
	if uint(tag) > TagMax || uint(to) >= uint(len(c.ranks)) || c.usable() != nil {
		return false
	}
	p := e.peers[c.ranks[to]]
	return p != nil && e.l.TrySend(e.lately(), p, c.context|uint64(tag), b)
}

// The method "sendable" returns the reason why no message with the given tag can be sent to the
// given rank, or nil if a message can be sent.
func (c *Comm) sendable(to, tag int) error {
	unusable := c.usable()
	switch {
	case unusable != nil:
		return unusable
	case tag < 0 || tag > TagMax:
		return fmt.Errorf("%w: %d, want 0 to %d", ErrTag, tag, TagMax)
	case to != NoRank && (to < 0 || to >= len(c.ranks)):
		return fmt.Errorf("%w: %d of %d", ErrRank, to, len(c.ranks))
	}
	return nil
}

// The method "reachable" makes the same checks as the method "sendable", and then checks that the
// connection to the rank has not ended. The caller must hold mu.
func (c *Comm) reachable(to, tag int) error {
	if err := c.sendable(to, tag); err != nil || to == NoRank {
		return err
	}
	p, err := c.e.peer(c.ranks[to])
	if err == nil && p.Err() != nil {
		err = c.e.gone(c.ranks[to], p.Err())
	}
	return err
}

// noMessage returns the reason why a probe for messages from a rank (or from AnySource) can no
// longer find a message. The result of noMessage is nil if a matching message can still arrive. The
// caller must hold mu.
func (c *Comm) noMessage(who *pml.Peer, from int) error {
	err := c.usable()
	if err == nil && who != nil && who.Err() != nil {
		err = c.e.gone(c.ranks[from], who.Err())
	}
	return err
}

// beginRecv begins to receive into the memory b, or into the layout l if l is not nil. The caller
// must hold mu.
func (c *Comm) beginRecv(r *Request, b []byte, size, from, tag int, l *shape) error {
	e := c.e
	if err := c.usable(); err != nil {
		return err
	}
	who, want, mask, err := c.criteria(from, tag)
	if err != nil {
		return err
	}
	if err := r.begin(c, size, true); err != nil {
		return err
	}
	if from == NoRank {
		r.done, r.receive, r.nobody = true, false, true
		return nil
	}
	r.p.Layout, r.p.Among = l.layout(), c.among(from)
	if e.l.Post(&r.p, who, want, mask, b) {
		return nil
	}
	if err = e.l.Recv(e.lately(), &r.p, who, want, mask, b); errors.Is(err, pml.ErrPeer) {
		err = e.gone(c.ranks[from], err)
	}
	r.active = err == nil
	return err
}

// The method "criteria" converts the source and the tag of a receive to the arguments of package
// pml that select messages.
func (c *Comm) criteria(from, tag int) (who *pml.Peer, want, mask uint64, err error) {
	switch {
	case tag != AnyTag && (tag < 0 || tag > TagMax):
		return nil, 0, 0, fmt.Errorf("%w: %d, want 0 to %d", ErrTag, tag, TagMax)
	case from == AnySource || from == NoRank:
	case from < 0 || from >= len(c.ranks):
		return nil, 0, 0, fmt.Errorf("%w: %d of %d", ErrRank, from, len(c.ranks))
	default:
		if who, err = c.e.peer(c.ranks[from]); err != nil {
			return nil, 0, 0, err
		}
	}
	want, mask = c.context, ^uint64(0)
	if tag == AnyTag {
		mask &^= TagMax
	} else {
		want |= uint64(tag)
	}
	return who, want, mask, nil
}

// The method "status" returns the Status of a message from a peer. The caller must set the field
// Count of the result.
func (c *Comm) status(p *pml.Peer, tag uint64) (Status, error) {
	world, err := c.e.rankOf(p)
	if err != nil {
		return Status{}, err
	}
	rank, ok := c.rankIn(world)
	if !ok {
		return Status{}, ErrStranger
	}
	return Status{Source: rank, Tag: int(tag & TagMax)}, nil
}

// The function "await" waits for the end of a request of the engine e. If ctx ends before the
// request ends, the function "await" returns the cause of ctx. The caller must hold mu of e.
func await(ctx context.Context, e *engine, r *Request) error {
	if r.done {
		return nil
	}
	w := e.waiters.get(1)
	r.waiter = w
	err := e.wait(ctx, w)
	r.waiter = nil
	e.waiters.put(w)
	if r.done {
		return nil
	}
	return err
}

// The method "complete" waits for the end of a blocking call's request, and then stores the request
// for reuse. If ctx ends before the request ends, the method "complete" abandons the request. The
// caller must hold mu.
func (e *engine) complete(ctx context.Context, r *Request) (Status, error) {
	if err := await(ctx, e, r); err != nil {
		return Status{}, errors.Join(err, e.abandon(r))
	}
	s, err := r.result()
	e.requests.put(r)
	return s, err
}

// The method "leave" cancels the receive of a Sendrecv whose send has failed with the error "why".
// If a message has already arrived for the receive, the method "leave" returns the Status of this
// message. The caller must hold mu.
func (e *engine) leave(r *Request, why error) (Status, error) {
	if !r.done {
		return Status{}, errors.Join(why, e.abandon(r))
	}
	s, err := r.result()
	e.requests.put(r)
	return s, errors.Join(why, err)
}

// The method "abandon" cancels the request of a call that stops waiting. If the request cannot be
// cancelled, the request continues to its end, and the method "abandon" returns ErrInUse.
func (e *engine) abandon(r *Request) error {
	if r.done || r.receive && e.l.Cancel(&r.p) {
		r.active = false
		e.requests.put(r)
		return nil
	}
	return ErrInUse
}
