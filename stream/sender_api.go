package stream

import (
	"context"
	"errors"
	"fmt"

	"gobtl/btl"
)

// The methods for programs.

// Identity returns the identity of this sender, for its receivers.
func (s *Sender) Identity() Identity {
	return Identity{Role: RoleSender, Key: s.key, Name: s.e.m.Name()}
}

// Next waits until the next region in order is free, and returns it. The producer fills the region,
// and then calls Populate. Only one goroutine may be the producer. With the policy Drop Next does
// not wait, but returns ErrOverrun if no region is free; the producer may then give up messages
// with Sender.Drop. It is not for Unmonitored senders. With a nil context it returns
// btl.ErrContext.
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

// Populate gives the region of the latest Next to the transport, with its first messages filled:
// 1 to RegionMessages.
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

// Drop gives up the next messages of the stream: they get ordinals, and are not sent.
func (s *Sender) Drop(messages uint64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.dropped += messages
}

// Finish ends a stream without a fixed number of messages, behind the populated regions.
func (s *Sender) Finish() {
	s.lock.Lock()
	s.finish = true
	s.lock.Unlock()
	s.ring.wakeUp()
}

// Started is closed when the stream begins, or ends before it did.
func (s *Sender) Started() <-chan struct{} { return s.started }

// Done is closed when the stream has ended. Err then returns the reason.
func (s *Sender) Done() <-chan struct{} { return s.done }

// Err returns the reason why the stream ended. It is nil if all receivers have reported.
func (s *Sender) Err() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.err
}

// Wait returns when the stream or ctx has ended. With a nil context it returns btl.ErrContext at
// once.
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

// Stats returns the counters as of the latest pass.
func (s *Sender) Stats() Stats {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.shown
}

// Reports returns the counters of the receivers that have reported by now.
func (s *Sender) Reports() []Stats {
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]Stats(nil), s.reports...)
}
