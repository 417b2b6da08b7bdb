package stream

import (
	"context"

	"gobtl/btl"
)

// Identity names this receiver to its sender.
func (r *Receiver) Identity() Identity {
	return Identity{Role: RoleReceiver, Key: r.own, Name: r.e.m.Name()}
}

// Completed hands over regions in order, as they are complete; give each back with Release. It is
// closed when the stream has ended. What was handed over before an error is valid. Of an
// Unmonitored receiver regions are left out while nobody takes them, and may be overwritten while
// they are read.
func (r *Receiver) Completed() <-chan Region { return r.regions }

// Release gives a region back to be filled again. A second time does nothing.
func (r *Receiver) Release(region Region) { r.ring.release(region.Index, region.First) }

// Met says whether a sender has said hello, and is still there.
func (r *Receiver) Met() bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.met
}

// SenderMessages is how many messages the sender's ring holds, as it says; 0 before Started. In a
// ring that is sent again and again message n of the stream stands at place n modulo this number.
func (r *Receiver) SenderMessages() uint64 {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.senderMessages
}

// Started is closed when the first message can arrive, or the stream has ended before.
func (r *Receiver) Started() <-chan struct{} { return r.started }

// Done is closed when the stream has ended; Err then tells why.
func (r *Receiver) Done() <-chan struct{} { return r.done }

// Err is why the stream ended: nil when the sender has said that this was all.
func (r *Receiver) Err() error {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.err
}

// Wait returns when the stream has ended, or ctx; with a nil context btl.ErrContext, at once.
func (r *Receiver) Wait(ctx context.Context) error {
	if ctx == nil {
		return btl.ErrContext
	}
	select {
	case <-r.done:
		return r.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stats returns the counters as of the latest pass.
func (r *Receiver) Stats() Stats {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.shown
}
