package btl

import (
	"fmt"

	"gobtl/fabric"
)

// Hooks has the methods of a module for drivers. A driver, such as package runner, calls Progress
// for many goroutines and sleeps between the calls. Only one goroutine at a time may call methods
// of Hooks, and only while no other goroutine runs Progress. Hooks holds a pointer, and may be
// copied.
type Hooks struct{ m *Module }

// Hooks returns the methods for drivers. A program that calls Progress itself does not need Hooks.
func (m *Module) Hooks() Hooks { return Hooks{m} }

// TakeOver prepares the module for a driver that sleeps while the module is idle. Timers of peers
// without packets in flight are stopped, so that these timers do not wake the driver. The receive
// state is updated before a message's handler runs, so that a reply sent by the handler also
// acknowledges the message. After TakeOver, Progress calls the OnDone functions (see
// Module.PullCompletions). TakeOver must be called before the first peer connects. Only the first
// call of TakeOver has an effect and returns true, because a module has one driver. Any goroutine
// may call TakeOver.
func (h Hooks) TakeOver() bool {
	if !h.m.driven.CompareAndSwap(false, true) {
		return false
	}
	h.m.all.Recovery.StopIdle()
	h.m.rx.BookFirst(true)
	h.m.PullCompletions(false)
	return true
}

// Sleeper returns the fabric's Sleeper, for a sleep in a goroutine that does not own the module,
// and the fabric's Hastener, which shortens the sleep. Each result of Sleeper is nil if the fabric
// does not implement the interface of the result.
func (h Hooks) Sleeper() (fabric.Sleeper, fabric.Hastener) {
	s, _ := h.m.all.Port.Dom.(fabric.Sleeper)
	e, _ := h.m.all.Port.Dom.(fabric.Hastener)
	return s, e
}

// Owns reports whether ep, which may be nil, belongs to the module. Any goroutine may call Owns.
func (h Hooks) Owns(ep *Endpoint) bool { return ep != nil && ep.c.All == &h.m.all }

// ClaimTag registers the handler of a layer, as Module.HandleUpTo does, for the module's lifetime.
// ClaimTag returns ErrTagTaken if the tag has a handler, and after ClaimTag, Module.Handle returns
// ErrTagTaken for the tag.
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

// Enter sets the module's time before calls of the module's methods outside of Progress. Enter
// makes the next call of Progress examine the whole state, because methods called outside of
// Progress may have left work. A time before the module's time is ignored.
func (h Hooks) Enter(now Time) { h.m.all.At(now) }

// Advance only sets the module's time, for later calls of methods without a time argument.
func (h Hooks) Advance(now Time) { h.m.all.Tick(now) }

// AcknowledgeAll sends the outstanding ACKs whose timers would soon wake the driver. In a callback
// AcknowledgeAll does nothing.
func (h Hooks) AcknowledgeAll() {
	if !h.m.inProgress && !h.m.closed {
		h.m.all.Acks.AcknowledgeAll()
	}
}

// PublishStats makes Module.Stats return the present values of the counters.
func (h Hooks) PublishStats() { h.m.publish() }

// NoteLost records the loss of a message that the driver had accepted from an application. The
// function given to the endpoint's next Flush receives err. On an ended endpoint, NoteLost has no
// effect.
func (h Hooks) NoteLost(ep *Endpoint, err error) { ep.c.NoteUntold(err) }
