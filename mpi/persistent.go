package mpi

import (
	"errors"
	"fmt"

	"gobtl/pml"
)

// The type "again" has the arguments of the operation that each Start of a persistent request
// begins.
type again struct {
	kind    againKind
	size    int // size of a value in bytes
	receive bool
	plan    *plan
}

type againKind uint8

const (
	notAgain againKind = iota
	messageAgain
	nobodyAgain
	planAgain
)

// SendInit prepares the request r for repeated sends of the slice "data" to a rank (MPI_Send_init).
// Each send begins with a call of Start. The program may change the slice "data" whenever the
// request r is not active. After a call of Isend or a similar function with the prepared request r,
// Start returns ErrNotInit until SendInit has prepared r again. There is no call to free r. The
// errors of SendInit are ErrBusy, ErrRank, ErrTag, ErrType, a RankError, and ErrFinalized.
func SendInit[T any](r *Request, c *Comm, data []T, to, tag int) error {
	return sendInit(r, c, data, to, tag, pml.Standard)
}

// SendSyncInit works like SendInit, in MPI's synchronous mode (MPI_Ssend_init). The request of a
// synchronous send ends only after a receive has matched the message.
func SendSyncInit[T any](r *Request, c *Comm, data []T, to, tag int) error {
	return sendInit(r, c, data, to, tag, pml.Synchronous)
}

func sendInit[T any](r *Request, c *Comm, data []T, to, tag int, mode pml.Mode) error {
	b, err := bytesOf(data)
	if err != nil {
		return err
	}
	c.e.lock()
	defer c.e.unlock()
	return c.readySend(r, b, to, tag, mode, nil)
}

// RecvInit prepares r for repeated receives into the slice "data" (MPI_Recv_init). Each prepared
// receive begins with a call of Start, and works like Recv. The errors of RecvInit are those of
// SendInit.
func RecvInit[T any](r *Request, c *Comm, data []T, from, tag int) error {
	b, err := bytesOf(data)
	if err != nil {
		return err
	}
	c.e.lock()
	defer c.e.unlock()
	return c.readyRecv(r, b, sizeOf[T](), from, tag, nil)
}

// Start begins the operation for which SendInit, RecvInit, BcastInit or a similar function has
// prepared r (MPI_Start). Start allocates no memory. The errors of Start are ErrBusy, ErrNotInit, a
// RankError, ErrRevoked, ErrFinalized, and the failure of the transport.
func (r *Request) Start() error {
	if r.active {
		return ErrBusy
	}
	if r.again.kind == notAgain {
		return ErrNotInit
	}
	e := r.c.e
	e.lock()
	defer e.unlock()
	return r.start()
}

// StartAll starts the given requests in order, and stops at the first request that cannot start
// (MPI_Startall). The error of StartAll contains the index of the request that cannot start. If
// StartAll returns an error, the requests whose indices are lower than the index in the error are
// active. The errors of StartAll are those of Start.
func StartAll(requests ...*Request) error {
	for i, r := range requests {
		if err := r.Start(); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

// start starts a prepared request that is not active. The caller must hold mu.
func (r *Request) start() error {
	c, a := r.c, r.again
	if a.kind == planAgain {
		err := c.collective(r, *a.plan)
		r.again = a
		return err
	}
	if err := c.usable(); err != nil {
		return err
	}
	err := r.begin(c, a.size, a.receive)
	r.again = a
	switch {
	case err != nil:
		return err
	case a.kind == nobodyAgain:
		r.done, r.receive, r.nobody = true, false, a.receive
		return nil
	}
	if err = c.e.l.Start(c.e.now(), &r.p); err == nil {
		return nil
	}
	r.active = false
	if rank, unknown := c.e.rankOf(r.p.Peer()); unknown == nil && errors.Is(err, pml.ErrPeer) {
		err = c.e.gone(rank, err)
	}
	return err
}

// readySend prepares a persistent request for sends. The caller must hold mu.
func (c *Comm) readySend(r *Request, b []byte, to, tag int, mode pml.Mode, l *shape) error {
	if r.active {
		return ErrBusy
	}
	if err := c.sendable(to, tag); err != nil {
		return err
	}
	a := again{kind: messageAgain, size: 1}
	if to == NoRank {
		a.kind = nobodyAgain
	} else {
		p, err := c.e.peer(c.ranks[to])
		if err == nil {
			err = c.e.l.SendInit(&r.p, p, c.context|uint64(tag), b, mode)
		}
		if err != nil {
			return err
		}
	}
	r.c, r.again, r.p.Layout = c, a, l.layout()
	return nil
}

// readyRecv prepares a persistent request for receives. The caller must hold mu.
func (c *Comm) readyRecv(r *Request, b []byte, size, from, tag int, l *shape) error {
	if r.active {
		return ErrBusy
	}
	if err := c.usable(); err != nil {
		return err
	}
	who, want, mask, err := c.criteria(from, tag)
	if err != nil {
		return err
	}
	a := again{kind: messageAgain, size: size, receive: true}
	if from == NoRank {
		a.kind = nobodyAgain
	} else if err := c.e.l.RecvInit(&r.p, who, want, mask, b); err != nil {
		return err
	}
	r.c, r.again, r.p.Layout, r.p.Among = c, a, l.layout(), c.among(from)
	return nil
}

// The method "ready" prepares a persistent request for a collective operation.
func (c *Comm) ready(r *Request, p plan, err error) error {
	c.e.lock()
	defer c.e.unlock()
	p.tag = c.persistentTurn()
	switch {
	case err != nil:
		return err
	case r.active:
		return ErrBusy
	case c.e.broken != nil:
		return c.e.broken
	case p.root < 0 || p.root >= len(c.ranks):
		return fmt.Errorf("%w: root %d of %d", ErrRank, p.root, len(c.ranks))
	}
	r.c, r.again = c, again{kind: planAgain, plan: &p}
	return nil
}
