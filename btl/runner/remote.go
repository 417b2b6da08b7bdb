package runner

import (
	"context"

	"gobtl/btl"
)

// PutNotice is Put with a notice: see Endpoint.PreparePutNotice. It returns when the bytes are in
// place and the notice is delivered, or is about to be. If ctx ends first, data and says may still
// be read: ErrInUse.
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

// Get reads len(mem) bytes of a region of the peer, from offset on, into mem, and returns when all
// have arrived. If ctx ends first, mem may still be written: ErrInUse.
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

// Atomic changes a number in a region of the peer, exactly once, and returns the old value if
// a.Fetch is set. If ctx ends first, the operation may still be done: ErrInUse.
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
