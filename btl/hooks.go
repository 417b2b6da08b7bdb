package btl

import "gobtl/fabric"

// Hooks are what a driver needs of a module beyond the public face: a driver is a layer that calls
// Progress on behalf of many goroutines and sleeps between two passes, as package runner does. One
// goroutine at a time may call the methods, as with those of Module, and never while Progress runs
// on another. Hooks holds a pointer, and may be copied.
type Hooks struct{ m *Module }

// Hooks returns the module's hooks. A program that calls Progress itself needs none.
func (m *Module) Hooks() Hooks { return Hooks{m} }

// TakeOver prepares the module for a driver that sleeps whenever nothing is to be done. Timers of
// peers to which nothing is in flight stop, so that they wake nobody. A message is booked before
// its handler runs, so that the handler's answer takes the ACK along. OnDone functions are called
// from Progress (see Module.PullCompletions). It must be called before the first peer connects.
func (h Hooks) TakeOver() {
	h.m.recovery.StopIdle()
	h.m.booksFirst = true
	h.m.PullCompletions(false)
}

// Sleeper returns the module's fabric as one in which a goroutine can sleep that does not own the
// module, and as one that shortens such a sleep. Each is nil if the fabric is not of that kind.
func (h Hooks) Sleeper() (fabric.Sleeper, fabric.Hastener) {
	s, _ := h.m.port.Dom.(fabric.Sleeper)
	e, _ := h.m.port.Dom.(fabric.Hastener)
	return s, e
}

// Owns says whether an endpoint is one of the module. Any goroutine may call it; ep may be nil.
func (h Hooks) Owns(ep *Endpoint) bool { return ep != nil && ep.m == h.m }

// Enter notes that it is now, before methods of the module are called between two passes. The next
// pass looks at everything: such a call may have left work for it. An instant before the latest one
// counts as that one.
func (h Hooks) Enter(now Time) { h.m.at(now) }

// Advance notes that it is now, and nothing else: methods that are called next and take no instant
// go by it.
func (h Hooks) Advance(now Time) { h.m.tick(now) }

// AcknowledgeAll sends every ACK that is owed and would wake the driver soon. Inside a callback it
// does nothing.
func (h Hooks) AcknowledgeAll() { h.m.acknowledgeAll() }

// PublishStats has Module.Stats tell of all that has been counted so far.
func (h Hooks) PublishStats() { h.m.publish() }

// NoteLost notes that a message is lost which the driver has taken over from its caller: the next
// flush of the endpoint, or of the whole module if the endpoint has ended, returns err.
func (h Hooks) NoteLost(ep *Endpoint, err error) { ep.noteUntold(err) }
