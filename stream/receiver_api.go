package stream

import (
	"context"

	"gobtl/btl"
)

// Identity returns the identity of this receiver, which the sender needs.
func (r *Receiver) Identity() Identity {
	return Identity{Role: RoleReceiver, Key: r.own, Name: r.e.m.Name()}
}

// Completed returns the channel on which the completed regions arrive, in the order of their
// messages. The program must call Release for each region. The channel is closed when the stream
// has ended. Regions that were sent to the channel before an error are valid. If the program does
// not read the channel of an Unmonitored receiver, regions are skipped. An Unmonitored receiver may
// overwrite a region while the program reads the region.
func (r *Receiver) Completed() <-chan Region { return r.regions }

// Release frees a region, so that the receiver can fill the region again. A second Release of the
// same region has no effect.
func (r *Receiver) Release(region Region) { r.ring.release(region.Index, region.First) }

// Met reports whether a sender has sent its hello message and is still connected.
func (r *Receiver) Met() bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.met
}

// SenderMessages returns the number of messages that the sender's ring can hold, as reported by the
// sender. Before the stream has started (Started), SenderMessages returns 0. If the sender sends
// its ring repeatedly, message n of the stream is message n modulo SenderMessages in the sender's
// ring.
func (r *Receiver) SenderMessages() uint64 {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.senderMessages
}

// Started returns a channel that is closed when the stream starts, before the first message can
// arrive. If the stream ends before it has started, the channel of Started is closed when the
// stream ends.
func (r *Receiver) Started() <-chan struct{} { return r.started }

// Done returns a channel that is closed when the stream has ended, after which Err returns the
// reason.
func (r *Receiver) Done() <-chan struct{} { return r.done }

// Err returns the reason why the stream ended. If the sender has ended the stream normally, Err
// returns nil.
func (r *Receiver) Err() error {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.err
}

// Wait returns when the stream or ctx has ended. If ctx is nil, Wait returns btl.ErrContext
// immediately.
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

// Stats returns a copy of the receiver's counters, which the engine updates during Progress.
func (r *Receiver) Stats() Stats {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.shown
}
