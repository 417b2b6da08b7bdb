package btl

import "gobtl/fabric"

// Hooks are the methods of a module for drivers: layers that call Progress on behalf of many
// goroutines and sleep between passes, as package runner does. As with Module, one goroutine at a
// time may call the methods, and never while Progress runs on another. Hooks holds a pointer, and
// may be copied.
type Hooks struct{ m *Module }

// Hooks returns the module's hooks. A program that calls Progress itself needs none.
func (m *Module) Hooks() Hooks { return Hooks{m} }

// TakeOver prepares the module for a driver that sleeps whenever it is idle. Timers of peers with
// nothing in flight stop, so that they do not wake the driver. A message's book-keeping is done
// before its handler runs, so that the answer carries the ACK. Progress calls the OnDone functions
// (see Module.PullCompletions). It must be called before the first peer connects.
func (h Hooks) TakeOver() {
	h.m.recovery.StopIdle()
	h.m.booksFirst = true
	h.m.PullCompletions(false)
}

// Sleeper returns the fabric's interfaces for a sleep in a goroutine that does not own the module,
// and for a call that shortens the sleep. Each is nil if the fabric does not implement it.
func (h Hooks) Sleeper() (fabric.Sleeper, fabric.Hastener) {
	s, _ := h.m.port.Dom.(fabric.Sleeper)
	e, _ := h.m.port.Dom.(fabric.Hastener)
	return s, e
}

// Owns says whether ep is an endpoint of the module. Any goroutine may call it; ep may be nil.
func (h Hooks) Owns(ep *Endpoint) bool { return ep != nil && ep.m == h.m }

// Enter sets the module's time before calls of its methods between two passes. The next pass is a
// full one, as such a call may leave work for it. An instant before the latest one counts as the
// latest.
func (h Hooks) Enter(now Time) { h.m.at(now) }

// Advance sets the module's time, without other effect, for later calls of methods that take no
// instant.
func (h Hooks) Advance(now Time) { h.m.tick(now) }

// AcknowledgeAll sends each owed ACK whose timer would soon wake the driver. It does nothing inside
// a callback.
func (h Hooks) AcknowledgeAll() { h.m.acknowledgeAll() }

// PublishStats brings the result of Module.Stats up to date.
func (h Hooks) PublishStats() { h.m.publish() }

// NoteLost records the loss of a message that the driver has accepted from its caller: the
// endpoint's next flush, or the module's if the endpoint has ended, returns err.
func (h Hooks) NoteLost(ep *Endpoint, err error) { ep.noteUntold(err) }
