package mpi

import (
	"context"
	"errors"

	"gobtl/pml"
)

// Send is Send of the layout's values.
func (l *Layout[T]) Send(ctx context.Context, c *Comm, to, tag int) error {
	return c.send(ctx, nil, &l.shape, to, tag, pml.Standard)
}

// SendSync is SendSync of the layout's values.
func (l *Layout[T]) SendSync(ctx context.Context, c *Comm, to, tag int) error {
	return c.send(ctx, nil, &l.shape, to, tag, pml.Synchronous)
}

// Recv is Recv into the places of the layout.
func (l *Layout[T]) Recv(ctx context.Context, c *Comm, from, tag int) (Status, error) {
	return c.recv(ctx, nil, &l.shape, l.unit, from, tag)
}

// Isend is Isend of the layout's values.
func (l *Layout[T]) Isend(r *Request, c *Comm, to, tag int) error {
	c.e.lock()
	defer c.e.unlock()
	return c.beginSend(r, nil, to, tag, pml.Standard, &l.shape)
}

// Irecv is Irecv into the places of the layout.
func (l *Layout[T]) Irecv(r *Request, c *Comm, from, tag int) error {
	c.e.lock()
	defer c.e.unlock()
	return c.beginRecv(r, nil, l.unit, from, tag, &l.shape)
}

// SendInit is SendInit of the layout's values.
func (l *Layout[T]) SendInit(r *Request, c *Comm, to, tag int) error {
	c.e.lock()
	defer c.e.unlock()
	return c.readySend(r, nil, to, tag, pml.Standard, &l.shape)
}

// RecvInit is RecvInit into the places of the layout.
func (l *Layout[T]) RecvInit(r *Request, c *Comm, from, tag int) error {
	c.e.lock()
	defer c.e.unlock()
	return c.readyRecv(r, nil, l.unit, from, tag, &l.shape)
}

// Bcast copies the values of the root's layout to the layouts of all ranks, which must have the
// same number of values. Collective operations of layouts copy the values once more than those of
// slices.
func (l *Layout[T]) Bcast(ctx context.Context, c *Comm, root int) error {
	data := l.packed() // also at the receivers: values that do not arrive keep their content
	err := Bcast(ctx, c, data, root)
	if c.rank != root && (err == nil || errors.Is(err, ErrCount)) {
		l.Unpack(data)
	}
	return err
}

// Gather collects the values of the layouts of all ranks in the root's out, like the function
// Gather.
func (l *Layout[T]) Gather(ctx context.Context, c *Comm, out []T, root int) error {
	return Gather(ctx, c, l.packed(), out, root)
}

// Allgather collects the values of the layouts of all ranks in the slice out of all ranks, like the
// function Allgather.
func (l *Layout[T]) Allgather(ctx context.Context, c *Comm, out []T) error {
	return Allgather(ctx, c, l.packed(), out)
}

// Scatter divides the root's in into parts, one for each rank's layout, like the function Scatter.
func (l *Layout[T]) Scatter(ctx context.Context, c *Comm, in []T, root int) error {
	part := make([]T, l.Len())
	err := Scatter(ctx, c, in, part, root)
	if err == nil {
		l.Unpack(part)
	}
	return err
}

// packed returns a contiguous copy of the values.
func (l *Layout[T]) packed() []T {
	values := make([]T, l.Len())
	l.Pack(values)
	return values
}

// Put begins to write the layout's values into the memory of a rank, in the same arrangement as
// here: the value at index i of the layout's slice goes to at+i. Each block is a put of its own.
// Errors as of Window.Put.
func (l *Layout[T]) Put(ctx context.Context, w *Window[T], to, at int) error {
	return l.eachBlock(func(data []T, offset int) error { return w.Put(ctx, data, to, at+offset) })
}

// Get begins to read values of a rank's memory into the layout, in the arrangement of Put.
func (l *Layout[T]) Get(ctx context.Context, w *Window[T], from, at int) error {
	return l.eachBlock(func(data []T, offset int) error { return w.Get(ctx, data, from, at+offset) })
}

// Accumulate begins to combine the layout's values with those of a rank, in the arrangement of Put.
// Errors as of Window.Accumulate.
func (l *Layout[T]) Accumulate(ctx context.Context, w *Window[T], to, at int, op Op[T]) error {
	return l.eachBlock(func(data []T, offset int) error {
		return w.Accumulate(ctx, data, to, at+offset, op)
	})
}

// eachBlock calls fn for each block, with the index of its beginning, until fn returns an error.
func (l *Layout[T]) eachBlock(fn func(data []T, offset int) error) error {
	for i, at := 0, 0; at < l.bytes; i++ {
		n := len(l.Run(at))
		first := l.start(i) / l.unit
		if err := fn(l.data[first:first+n/l.unit], first); err != nil {
			return err
		}
		at += n
	}
	return nil
}
