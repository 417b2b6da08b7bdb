package btl

import (
	"time"

	"gobtl/fabric"
)

// ReadyFd returns a descriptor for a loop of another kind, epoll in C perhaps, to sleep on, among
// those of other modules and whatever else. Such a loop, in the module's owner's goroutine, makes
// passes of all its modules; then calls Arm of each, and sleeps, for no longer than all of them
// say, until one of the descriptors is readable; calls Disarm of each; and begins again. Nothing
// that comes in between is missed. The descriptor is the module's, which reads and closes it, and
// says something from an Arm to its Disarm alone. Without a fabric.Readier the error is
// fabric.ErrNotSupported.
func (m *Module) ReadyFd() (fd int, err error) {
	if m.closed {
		return -1, ErrClosed
	}
	if m.readier == nil {
		r, ok := m.port.Dom.(fabric.Readier)
		if !ok {
			return -1, fabric.ErrNotSupported
		}
		m.readier = r
	}
	return m.readier.ReadyFd()
}

// Arm readies the descriptor of ReadyFd for a sleep, and returns for how long the owner may sleep
// from now on at most; negative: no limit; 0: it has to make a pass first, or to pull. Until Disarm
// it calls nothing of the module but Wake, which makes the descriptor readable.
func (m *Module) Arm(now Time) (most time.Duration) {
	if m.readier == nil || m.closed || m.inProgress || m.toPull() {
		return 0
	}
	due := m.Deadline()
	if due <= now {
		return 0
	}
	if m.dirty {
		m.publish()
	}
	if most = m.readier.ArmReady(); due != Never && (most < 0 || most > due.Sub(now)) {
		most = due.Sub(now)
	}
	return most
}

// Disarm ends an Arm, after a sleep or instead of one.
func (m *Module) Disarm() {
	if m.readier != nil && !m.closed {
		m.readier.DisarmReady()
	}
}

// toPull says whether something waits for Pull or PullArrivals.
func (m *Module) toPull() bool {
	o := &m.outbox
	return m.keeping.waiting.len() > 0 ||
		o.pulled && (o.ended.first != nil || o.notices.len() > 0)
}
