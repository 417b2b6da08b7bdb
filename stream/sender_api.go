package stream

import (
	"context"
	"errors"
	"fmt"

	"gobtl/btl"
)

// The methods below are the exported methods of a Sender, for programs.

// Identity returns the identity of this sender, which the receivers need.
func (s *Sender) Identity() Identity {
	return Identity{Role: RoleSender, Key: s.key, Name: s.e.m.Name()}
}

// Next waits until the next region of the ring is free, and returns the region. The
// producer fills the region, and calls Populate. Only one goroutine may be the producer. If
// Config.Overrun is Drop and no region is free, Next returns ErrOverrun without waiting.
// After ErrOverrun from Next, the producer may drop messages with Sender.Drop. Next must
// not be called for an Unmonitored sender. If ctx is nil, Next returns btl.ErrContext.
func (s *Sender) Next(ctx context.Context) (Region, error) {
	if ctx == nil {
		return Region{}, btl.ErrContext
	}
	for {
		slot := int(s.nextFill % uint64(s.ring.geo.Regions))
		if s.ring.get(slot, wordState) == regionFree {
			n := s.ring.geo.RegionMessages
			return Region{Index: slot, Messages: n, Received: n, Bytes: s.ring.Region(slot)}, nil
		}
		select {
		case <-s.done:
			return Region{}, errors.Join(ErrClosed, s.Err())
		default:
		}
		if s.cfg.Overrun == Drop {
			return Region{}, ErrOverrun
		}
		select {
		case <-s.freed:
		case <-s.done:
		case <-ctx.Done():
			return Region{}, ctx.Err()
		}
	}
}

// Populate tells the transport that the producer has filled the region from the latest call of
// Next. The argument "messages" of Populate is the number of filled messages at the beginning of
// the region, from 1 to RegionMessages.
func (s *Sender) Populate(messages int) error {
	if messages < 1 || messages > s.ring.geo.RegionMessages {
		return fmt.Errorf("%w: %d messages of a region of %d", ErrConfig, messages,
			s.ring.geo.RegionMessages)
	}
	slot := int(s.nextFill % uint64(s.ring.geo.Regions))
	if !s.ring.Free(slot) {
		return fmt.Errorf("%w: Populate without Next", ErrOverrun)
	}
	s.lock.Lock()
	skip := s.dropped
	s.dropped = 0
	s.lock.Unlock()
	s.ring.set(slot, wordSkip, skip)
	s.ring.set(slot, wordMessages, uint64(messages))
	s.nextFill++
	s.ring.set(slot, wordState, regionPopulated)
	s.ring.wakeUp()
	return nil
}

// Drop drops the next messages of the stream. Dropped messages use up ordinals, but are not sent.
func (s *Sender) Drop(messages uint64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.dropped += messages
}

// Finish ends a stream without a fixed number of messages (Config.Messages). After Finish, the
// stream ends when all populated regions are sent, and all receivers have sent their final
// counters. A receiver that sends no final counters delays the end by at most the sum of
// Config.Timeout, one second and the receiver's Config.Grace. In the unreliable mode, a receiver
// that reports progress can delay the end by at most 30 times Config.Timeout plus its Config.Grace.
// Port.Abort ends the stream immediately.
func (s *Sender) Finish() {
	s.lock.Lock()
	s.finish = true
	s.lock.Unlock()
	s.ring.wakeUp()
}

// Started returns a channel that is closed when the stream begins, or when the stream ends before
// it has begun.
func (s *Sender) Started() <-chan struct{} { return s.started }

// Done returns a channel that is closed when the stream has ended, after which Err returns the
// reason.
func (s *Sender) Done() <-chan struct{} { return s.done }

// Err returns the reason why the stream ended. If all receivers have sent their final counters, Err
// returns nil.
func (s *Sender) Err() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.err
}

// Wait returns when the stream or ctx has ended. If ctx is nil, Wait returns btl.ErrContext
// immediately.
func (s *Sender) Wait(ctx context.Context) error {
	if ctx == nil {
		return btl.ErrContext
	}
	select {
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stats returns a copy of the sender's counters, which the engine updates during Progress.
func (s *Sender) Stats() Stats {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.shown
}

// Reports returns the final counters that receivers have sent so far.
func (s *Sender) Reports() []Stats {
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]Stats(nil), s.reports...)
}
