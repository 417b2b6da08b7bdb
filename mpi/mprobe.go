package mpi

import (
	"context"
	"errors"
	"math"

	"gobtl/pml"
)

// Message is a message that Mprobe has found. Only Mrecv and Imrecv can receive a Message. A
// Message belongs to one goroutine at a time. Message and Mprobe are meant for programs in which
// several goroutines probe for and receive messages. After a Probe, by contrast, any goroutine
// could receive the message that Probe has found.
type Message struct {
	c *Comm
	m *pml.Message // nil: from NoRank
}

// Mprobe works like Probe, but after Mprobe, no receive or probe can match the message that Mprobe
// has found (MPI_Mprobe). The caller of Mprobe must receive the found message with Mrecv or Imrecv.
// The errors of Mprobe are those of Probe.
func Mprobe(ctx context.Context, c *Comm, from, tag int) (*Message, Status, error) {
	if ctx == nil {
		return nil, Status{}, ErrContext
	}
	e := c.e
	e.lock()
	defer e.unlock()
	who, want, mask, err := c.criteria(from, tag)
	if err != nil {
		return nil, Status{}, err
	}
	if from == NoRank {
		return &Message{c: c}, Status{Source: NoRank, Tag: AnyTag}, nil
	}
	var found *pml.Message
	w := e.waiters.get(1)
	w.ready = func() bool {
		if found == nil {
			c.dropOutsiders(from, want, mask)
			found = e.l.MProbe(who, want, mask)
		}
		return found != nil || c.revoked != nil || who != nil && who.Err() != nil
	}
	err = e.wait(ctx, w)
	e.waiters.put(w)
	switch {
	case err != nil:
		return nil, Status{}, err
	case found != nil:
		return c.probed(found)
	case c.revoked != nil:
		return nil, Status{}, c.revoked
	}
	return nil, Status{}, e.gone(c.ranks[from], who.Err())
}

// Improbe works like Mprobe, but does not wait (MPI_Improbe). Improbe polls the transport once, and
// returns a nil message if no message matches.
func Improbe(c *Comm, from, tag int) (*Message, Status, error) {
	e := c.e
	e.lock()
	defer e.unlock()
	who, want, mask, err := c.criteria(from, tag)
	if err != nil {
		return nil, Status{}, err
	}
	if from == NoRank {
		return &Message{c: c}, Status{Source: NoRank, Tag: AnyTag}, nil
	}
	if !e.driving {
		e.pass()
	}
	c.dropOutsiders(from, want, mask)
	if found := e.l.MProbe(who, want, mask); found != nil {
		return c.probed(found)
	}
	return nil, Status{}, c.noMessage(who, from)
}

func (c *Comm) probed(found *pml.Message) (*Message, Status, error) {
	s, err := c.status(found.Peer(), found.Tag())
	s.Count = int(min(found.Size(), math.MaxInt))
	return &Message{c, found}, s, err
}

// Mrecv receives a message that Mprobe has found into the slice "data" (MPI_Mrecv). Mrecv returns
// the errors of Recv, or ErrMessage if the message was already received.
func Mrecv[T any](ctx context.Context, m *Message, data []T) (Status, error) {
	if ctx == nil {
		return Status{}, ErrContext
	}
	b, err := bytesOf(data)
	if err != nil {
		return Status{}, err
	}
	e := m.c.e
	e.lock()
	defer e.unlock()
	r := e.requests.get()
	if err := m.begin(r, b, sizeOf[T]()); err != nil {
		e.requests.put(r)
		return Status{}, err
	}
	return e.complete(ctx, r)
}

// Imrecv begins to receive a message that Mprobe has found into the slice "data" (MPI_Imrecv).
// Until the request r has ended, the program must not access the slice "data". Imrecv returns the
// errors of Irecv, or ErrMessage if the message was already received.
func Imrecv[T any](r *Request, m *Message, data []T) error {
	b, err := bytesOf(data)
	if err != nil {
		return err
	}
	m.c.e.lock()
	defer m.c.e.unlock()
	return m.begin(r, b, sizeOf[T]())
}

// The method "begin" begins to receive the message m with the request r. The caller must hold mu.
func (m *Message) begin(r *Request, b []byte, size int) error {
	c := m.c
	if err := c.usable(); err != nil {
		return err
	}
	if err := r.begin(c, size, true); err != nil {
		return err
	}
	if m.m == nil {
		r.done, r.receive, r.nobody = true, false, true
		return nil
	}
	r.p.Layout = nil
	peer := m.m.Peer()
	err := c.e.l.RecvMessage(c.e.now(), &r.p, m.m, b)
	if errors.Is(err, pml.ErrPeer) {
		if rank, unknown := c.e.rankOf(peer); unknown == nil {
			err = c.e.gone(rank, err)
		}
	}
	r.active = err == nil
	return err
}

// SendrecvReplace sends the slice "data" to the rank "to", and receives a message from the rank
// "from" into the same slice (MPI_Sendrecv_replace). SendrecvReplace copies the slice "data" before
// the send. The errors of SendrecvReplace are those of Sendrecv.
func SendrecvReplace[T any](ctx context.Context, c *Comm, data []T, to, tag, from, fromTag int,
) (Status, error) {
	return Sendrecv(ctx, c, append([]T(nil), data...), to, tag, data, from, fromTag)
}
