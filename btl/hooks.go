package btl

import (
	"fmt"

	"gobtl/fabric"
)

// Hooks contains those methods of a module that only drivers need. A driver, such as package
// runner, calls Progress on behalf of many goroutines and sleeps between the calls. Except for
// TakeOver and Owns, only one goroutine at a time may call methods of Hooks, and only while no
// other goroutine runs Progress. Hooks contains only a pointer, so copies of a Hooks are
// equivalent.
type Hooks struct{ m *Module }

// Hooks returns the methods for drivers. A program that calls Progress itself does not need Hooks.
func (m *Module) Hooks() Hooks { return Hooks{m} }

// TakeOver prepares the module for a driver that sleeps while the module is idle. TakeOver stops
// the retransmission timers of peers without packets in flight, so that these timers do not wake
// the driver. After TakeOver, the receive state is updated before a message's handler runs, so that
// a reply of the handler carries the acknowledgement of the message. After TakeOver, Progress
// reports completions with OnDone (see Module.PullCompletions). TakeOver must be called before the
// first peer connects. Only the first call of TakeOver has an effect and returns true, because a
// module has only one driver. TakeOver is safe for concurrent use.
func (h Hooks) TakeOver() bool {
	if !h.m.driven.CompareAndSwap(false, true) {
		return false
	}
	h.m.all.Recovery.StopIdle()
	h.m.rx.BookFirst(true)
	h.m.PullCompletions(false)
	return true
}

// Sleeper returns the fabric's Sleeper, with which a goroutine that does not own the module can
// sleep, and the fabric's Hastener, which shortens the sleep. Each result of Sleeper is nil if the
// fabric does not implement the interface of the result.
func (h Hooks) Sleeper() (fabric.Sleeper, fabric.Hastener) {
	s, _ := h.m.all.Port.Dom.(fabric.Sleeper)
	e, _ := h.m.all.Port.Dom.(fabric.Hastener)
	return s, e
}

// Owns reports whether ep, which may be nil, belongs to the module, and is safe for concurrent use.
func (h Hooks) Owns(ep *Endpoint) bool { return ep != nil && ep.c.All == &h.m.all }

// ClaimTag registers the handler of a layer, as Module.HandleUpTo does, for the module's lifetime.
// If the tag already has a handler, ClaimTag returns ErrTagTaken. After ClaimTag, Module.Handle
// returns ErrTagTaken for the claimed tag.
func (h Hooks) ClaimTag(tag Tag, mostBytes uint32, fn Handler) error {
	if tag <= TagMax && h.m.rx.Handles(uint8(tag)) {
		return fmt.Errorf("%w: tag %d has a handler", ErrTagTaken, tag)
	}
	if err := h.m.HandleUpTo(tag, mostBytes, fn); err != nil {
		return err
	}
	h.m.claimed[tag] = true
	return nil
}

// Enter sets the module's time. A driver calls Enter before it calls methods of the module outside
// of Progress. Enter makes the next call of Progress examine the whole state, because the methods
// might have left work for Progress. Enter ignores a time that is before the module's time.
func (h Hooks) Enter(now Time) { h.m.all.At(now) }

// Advance only sets the module's time, for methods without a time argument.
func (h Hooks) Advance(now Time) { h.m.all.Tick(now) }

// AcknowledgeAll sends outstanding ACKs before they are due, so that their timers do not wake the
// driver. In a callback AcknowledgeAll does nothing.
func (h Hooks) AcknowledgeAll() {
	if !h.m.inProgress && !h.m.closed {
		h.m.all.Acks.AcknowledgeAll()
	}
}

// PublishStats copies the present values of the counters to the snapshot that Module.Stats returns.
func (h Hooks) PublishStats() { h.m.publish() }

// NoteLost records that a message was lost after the driver had accepted it from the application.
// The function given to the endpoint's next Flush receives the argument err of NoteLost. On an
// ended endpoint, NoteLost has no effect.
func (h Hooks) NoteLost(ep *Endpoint, err error) { ep.c.NoteUntold(err) }
