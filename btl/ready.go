package btl

import (
	"time"

	"gobtl/fabric"
)

// ReadyFd returns a file descriptor on which an event loop outside of Go, such as epoll in C, can
// sleep. An event loop for ReadyFd runs on the goroutine that owns the modules, and repeats the
// following steps:
//
//  1. Call Progress of each module, and then Arm of each module.
//  2. Sleep until a descriptor is readable, at most for the shortest time that Arm has returned.
//  3. Call Disarm of each module.
//
// An event loop with these steps misses no event. The module owns the descriptor of ReadyFd, so the
// program must neither read from it nor close it. The descriptor's readiness is meaningful only
// between Arm and Disarm. ReadyFd returns fabric.ErrNotSupported if the provider does not implement
// fabric.Readier.
func (m *Module) ReadyFd() (fd int, err error) {
	if m.closed {
		return -1, ErrClosed
	}
	if m.readier == nil {
		r, ok := m.all.Port.Dom.(fabric.Readier)
		if !ok {
			return -1, fabric.ErrNotSupported
		}
		m.readier = r
	}
	return m.readier.ReadyFd()
}

// Arm prepares the descriptor of ReadyFd for a sleep, and returns the maximum duration of the
// sleep. A negative result means that there is no limit. If Arm returns 0, the caller must not
// sleep, but must call Progress and, if it uses them, Pull and PullArrivals. Between Arm and
// Disarm, the program may call no method of the module except Wake, which makes the descriptor
// readable.
func (m *Module) Arm(now Time) (most time.Duration) {
	if m.readier == nil || m.closed || m.inProgress || m.toPull() {
		return 0
	}
	due := m.Deadline()
	if due <= now {
		return 0
	}
	m.publishChanges()
	if most = m.readier.ArmReady(); due != Never && (most < 0 || most > due.Sub(now)) {
		most = due.Sub(now)
	}
	return most
}

// Disarm ends the effect of Arm, whether or not the caller has slept.
func (m *Module) Disarm() {
	if m.readier != nil && !m.closed {
		m.readier.DisarmReady()
	}
}

func (m *Module) toPull() bool { return m.rx.Arrivals.Len() > 0 || m.all.Outbox.ToPull() }
