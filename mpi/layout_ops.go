package mpi

import (
	"context"
	"errors"

	"gobtl/pml"
)

// Send sends the values of the layout, in the same way as the function Send.
func (l *Layout[T]) Send(ctx context.Context, c *Comm, to, tag int) error {
	return c.send(ctx, nil, &l.shape, to, tag, pml.Standard)
}

// SendSync sends the values of the layout, in the same way as the function SendSync.
func (l *Layout[T]) SendSync(ctx context.Context, c *Comm, to, tag int) error {
	return c.send(ctx, nil, &l.shape, to, tag, pml.Synchronous)
}

// Recv receives a message into the layout, in the same way as the function Recv.
func (l *Layout[T]) Recv(ctx context.Context, c *Comm, from, tag int) (Status, error) {
	return c.recv(ctx, nil, &l.shape, l.unit, from, tag)
}

// Isend begins to send the values of the layout, in the same way as the function Isend.
func (l *Layout[T]) Isend(r *Request, c *Comm, to, tag int) error {
	c.e.lock()
	defer c.e.unlock()
	return c.beginSend(r, nil, to, tag, pml.Standard, &l.shape)
}

// Irecv begins to receive a message into the layout, in the same way as the function Irecv.
func (l *Layout[T]) Irecv(r *Request, c *Comm, from, tag int) error {
	c.e.lock()
	defer c.e.unlock()
	return c.beginRecv(r, nil, l.unit, from, tag, &l.shape)
}

// SendInit prepares r for repeated sends of the layout's values, in the same way as the function
// SendInit.
func (l *Layout[T]) SendInit(r *Request, c *Comm, to, tag int) error {
	c.e.lock()
	defer c.e.unlock()
	return c.readySend(r, nil, to, tag, pml.Standard, &l.shape)
}

// RecvInit prepares r for repeated receives into the layout, in the same way as the function
// RecvInit.
func (l *Layout[T]) RecvInit(r *Request, c *Comm, from, tag int) error {
	c.e.lock()
	defer c.e.unlock()
	return c.readyRecv(r, nil, l.unit, from, tag, &l.shape)
}

// Bcast copies the values of the root's layout to the layouts of all ranks, which must have the
// same number of values. A collective operation with layouts copies the values once more than the
// same operation with slices.
func (l *Layout[T]) Bcast(ctx context.Context, c *Comm, root int) error {
	data := l.packed() // also at receivers: values that do not arrive keep their old contents
	err := Bcast(ctx, c, data, root)
	if c.rank != root && (err == nil || errors.Is(err, ErrCount)) {
		l.Unpack(data)
	}
	return err
}

// Gather collects the values of the layouts of all ranks in the root's output slice, in the same
// way as the function Gather.
func (l *Layout[T]) Gather(ctx context.Context, c *Comm, out []T, root int) error {
	return Gather(ctx, c, l.packed(), out, root)
}

// Allgather collects the values of the layouts of all ranks in the output slice of every rank, in
// the same way as the function Allgather.
func (l *Layout[T]) Allgather(ctx context.Context, c *Comm, out []T) error {
	return Allgather(ctx, c, l.packed(), out)
}

// Scatter divides the root's input slice into parts, and copies one part into the layout of each
// rank, in the same way as the function Scatter.
func (l *Layout[T]) Scatter(ctx context.Context, c *Comm, in []T, root int) error {
	part := make([]T, l.Len())
	err := Scatter(ctx, c, in, part, root)
	if err == nil {
		l.Unpack(part)
	}
	return err
}

// The method "packed" returns a copy of the layout's values in one slice without gaps.
func (l *Layout[T]) packed() []T {
	values := make([]T, l.Len())
	l.Pack(values)
	return values
}

// Put begins to write the layout's values to a rank's memory in a window, and keeps the distances
// between the values. The value at index i of the layout's slice is written to index at+i of the
// rank's memory. Each block of the layout is a separate put. The errors of Put are those of
// Window.Put.
func (l *Layout[T]) Put(ctx context.Context, w *Window[T], to, at int) error {
	return l.eachBlock(func(data []T, offset int) error { return w.Put(ctx, data, to, at+offset) })
}

// Get begins to read values of a rank's memory in a window into the layout. The value at index at+i
// of the rank's memory is copied to index i of the layout's slice.
func (l *Layout[T]) Get(ctx context.Context, w *Window[T], from, at int) error {
	return l.eachBlock(func(data []T, offset int) error { return w.Get(ctx, data, from, at+offset) })
}

// Accumulate begins to combine the layout's values with values of a rank's memory in a window.
// Layout.Accumulate uses the same indexes in the rank's memory as Layout.Put. The errors of
// Accumulate are those of Window.Accumulate.
func (l *Layout[T]) Accumulate(ctx context.Context, w *Window[T], to, at int, op Op[T]) error {
	return l.eachBlock(func(data []T, offset int) error {
		return w.Accumulate(ctx, data, to, at+offset, op)
	})
}

// eachBlock calls the function fn for each block of the layout, until fn returns an error. The
// arguments of fn are the values of the block, and the index of the block's first value in the
// layout's slice.
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
