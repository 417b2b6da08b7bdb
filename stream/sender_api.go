package stream

import (
	"context"
	"errors"
	"fmt"

	"gobtl/btl"
)

// The methods for programs.

// Identity names this sender to its receivers.
func (s *Sender) Identity() Identity {
	return Identity{Role: RoleSender, Key: s.key, Name: s.e.m.Name()}
}

// Next waits for the next region in order to be free, for the producer to fill; then Populate it.
// Only one goroutine may be the producer. With Drop it does not wait: ErrOverrun says that there is
// none, and Drop that the producer gives messages up. Not for Unmonitored. With a nil context it is
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

// Finish ends a stream without a fixed number of messages, behind what was populated.
func (s *Sender) Finish() {
	s.lock.Lock()
	s.finish = true
	s.lock.Unlock()
	s.ring.wakeUp()
}

// Started is closed when the stream begins, or ends before it did.
func (s *Sender) Started() <-chan struct{} { return s.started }

// Done is closed when the stream has ended; Err then tells why.
func (s *Sender) Done() <-chan struct{} { return s.done }

// Err is why the stream ended: nil when all receivers have reported.
func (s *Sender) Err() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.err
}

// Wait returns when the stream has ended, or ctx; with a nil context btl.ErrContext, at once.
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

// Reports returns what the receivers have counted, those that have said so by now.
func (s *Sender) Reports() []Stats {
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]Stats(nil), s.reports...)
}
