package btl

import (
	"time"

	"gobtl/fabric"
)

// ReadyFd returns a file descriptor on which a foreign event loop, such as epoll in C, can sleep,
// along with other descriptors. The loop, in the goroutine that owns its modules, calls Progress of
// each, then Arm of each. It sleeps, at most for the shortest time that Arm returned, until a
// descriptor is readable, calls Disarm of each, and starts over. No event in between is missed. The
// module owns the descriptor, reads it and closes it; its state is meaningful only between Arm and
// Disarm. Without a fabric.Readier the error is fabric.ErrNotSupported.
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

// Arm prepares the descriptor of ReadyFd for a sleep, and returns the longest time that the owner
// may sleep from now on; negative: no limit; 0: it must call Progress, or pull, first. Until Disarm
// the owner may call only Wake, which makes the descriptor readable.
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

// toPull says whether Pull or PullArrivals would return anything.
func (m *Module) toPull() bool {
	o := &m.outbox
	return m.keeping.waiting.len() > 0 ||
		o.pulled && (o.ended.first != nil || o.notices.len() > 0)
}
