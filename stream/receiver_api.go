package stream

import (
	"context"

	"gobtl/btl"
)

// Identity returns the identity of this receiver, for its sender.
func (r *Receiver) Identity() Identity {
	return Identity{Role: RoleReceiver, Key: r.own, Name: r.e.m.Name()}
}

// Completed returns the channel of the completed regions, in order. The program must Release each
// region. The channel is closed when the stream has ended. Regions that were handed over before an
// error are valid. An Unmonitored receiver skips regions while the program does not take them, and
// may overwrite a region while it is read.
func (r *Receiver) Completed() <-chan Region { return r.regions }

// Release makes a region free to be filled again. A second Release of it does nothing.
func (r *Receiver) Release(region Region) { r.ring.release(region.Index, region.First) }

// Met reports whether a sender has said hello and is still connected.
func (r *Receiver) Met() bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.met
}

// SenderMessages returns the number of messages in the sender's ring, as reported by the sender. It
// is 0 before Started. If the ring is sent over and over, message n of the stream is at place n
// modulo this number of the sender's ring.
func (r *Receiver) SenderMessages() uint64 {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.senderMessages
}

// Started is closed when the first message can arrive, or when the stream ends before that.
func (r *Receiver) Started() <-chan struct{} { return r.started }

// Done is closed when the stream has ended. Err then returns the reason.
func (r *Receiver) Done() <-chan struct{} { return r.done }

// Err returns the reason why the stream ended. It is nil if the sender has ended the stream in
// order.
func (r *Receiver) Err() error {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.err
}

// Wait returns when the stream or ctx has ended. With a nil context it returns btl.ErrContext at
// once.
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
