package runner

import (
	"context"

	"gobtl/btl"
)

// PutNotice writes like Put, and then delivers a notification to the peer (see
// btl.Endpoint.PreparePutNotice). PutNotice returns when the peer has all bytes and the
// notification, but the peer's handler for the notification might run a little later. If ctx is
// cancelled while PutNotice waits, PutNotice returns an error that matches ErrInUse, and the
// transport might still read the slices "data" and "says".
func (r *Runner) PutNotice(ctx context.Context, ep *btl.Endpoint, data []byte, target btl.Handle,
	offset uint64, tag btl.Tag, says []byte,
) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callSend)
	c.ep, c.data, c.tag, c.says = ep, data, tag, says
	c.does, c.to, c.off = memoryPutNotice, target, offset
	return r.runLent(ctx, c, true)
}

// Get reads len(mem) bytes of a peer's region, from the given offset on, into mem. Get returns when
// all bytes have arrived. If ctx is cancelled while Get waits, Get returns an error that matches
// ErrInUse, and the transport might still write to mem.
func (r *Runner) Get(ctx context.Context, ep *btl.Endpoint, mem []byte, target btl.Handle,
	offset uint64,
) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callSend)
	c.ep, c.data, c.does, c.to, c.off = ep, mem, memoryGet, target, offset
	return r.runLent(ctx, c, true)
}

// Atomic performs the atomic operation a on a number in a region of the peer, exactly once, and
// returns the old value if a.Fetch is set. If ctx is cancelled before the peer has answered, Atomic
// returns an error that matches ErrInUse, and the peer might still perform the operation.
func (r *Runner) Atomic(ctx context.Context, ep *btl.Endpoint,
	a btl.Atomic,
) (old uint64, err error) {
	if err := r.mine(ep); err != nil {
		return 0, err
	}
	c := r.newCall(callSend)
	c.ep, c.does, c.atomic = ep, memoryAtomic, a
	if err := r.runLent(ctx, c, true); err != nil {
		return 0, err
	}
	old = c.old
	c.recycle()
	return old, nil
}
