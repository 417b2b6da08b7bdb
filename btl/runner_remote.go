package btl

import "context"

// PutNotice is Put with a notice: see Endpoint.PreparePutNotice. It returns when the bytes are in
// place and the notice is delivered, or will be at once. When ctx ends first, data may still be
// read: ErrInUse.
func (r *Runner) PutNotice(ctx context.Context, ep *Endpoint, data []byte, target Handle,
	offset uint64, tag Tag, says []byte,
) error {
	return r.operate(ctx, ep, nil, func() (*Fragment, error) {
		return ep.PreparePutNotice(data, target, offset, tag, says)
	})
}

// Get reads into mem what a region of the peer holds from offset on, and returns when all of it is
// there. When ctx ends first, mem may still be written: ErrInUse.
func (r *Runner) Get(ctx context.Context, ep *Endpoint, mem []byte, target Handle,
	offset uint64,
) error {
	return r.operate(ctx, ep, nil, func() (*Fragment, error) {
		return ep.PrepareGet(mem, target, offset)
	})
}

// Atomic changes a number in a region of the peer, exactly once, and returns the old value if
// a.Fetch is set. When ctx ends first, it may still be done: the error says ErrInUse.
func (r *Runner) Atomic(ctx context.Context, ep *Endpoint, a Atomic) (old uint64, err error) {
	value := new(uint64)
	if err := r.operate(ctx, ep, value, func() (*Fragment, error) {
		return ep.PrepareAtomic(a)
	}); err != nil {
		return 0, err
	}
	return *value, nil
}

// operate sends what prepare lends, and waits for its end.
func (r *Runner) operate(ctx context.Context, ep *Endpoint, value *uint64,
	prepare func() (*Fragment, error),
) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callSend)
	c.ep, c.prepare, c.value = ep, prepare, value
	return r.runLent(ctx, c, true)
}
