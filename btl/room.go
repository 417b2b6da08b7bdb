package btl

import (
	"fmt"

	"gobtl/btl/internal/share"
)

// wants is a set of kinds of calls on an endpoint that have returned ErrAgain.
type wants uint8

const (
	wantsFragment  wants = 1 << iota // Alloc and the Prepare methods
	wantsImmediate                   // SendImmediate
	wantsAsk                         // PrepareGet and PrepareAtomic
)

// OnRoom registers the function fn, which Progress calls when a call that has returned
// ErrAgain should be repeated. For each endpoint, OnRoom's function fn is called once, as
// soon as a call of the same kind can succeed. A call repeated from fn may return ErrAgain
// again, if not enough resources are free or if other calls have used the resources. After
// each further ErrAgain, fn is called again. An application that uses Pull
// (PullCompletions) gets a CompletionRoom instead of a call of fn, even if no function is
// registered. For ended endpoints, fn is not called.
func (m *Module) OnRoom(fn func(ep *Endpoint)) { m.outbox.onRoom = fn }

// again returns ErrAgain, and records that the application must be notified when a call of the
// given kind can succeed.
func (ep *Endpoint) again(what wants) error {
	o := &ep.m.outbox
	if o.onRoom == nil && !o.pulled || ep.err != nil {
		return ErrAgain
	}
	if ep.wants == 0 {
		o.wanting = append(o.wanting, ep)
		ep.m.stir()
	}
	ep.wants |= what
	return ErrAgain
}

// findRoom queues notifications for the endpoints on which a call that returned ErrAgain can
// succeed now.
func (m *Module) findRoom() {
	o, n := &m.outbox, 0
	if len(o.wanting) == 0 { // the usual case
		return
	}
	for _, ep := range o.wanting {
		switch {
		case ep.err != nil || ep.wants == 0:
			ep.wants = 0
		case m.hasRoom(ep):
			ep.wants = 0
			o.notices.Push(notice{ep: ep, kind: CompletionRoom})
		default:
			o.wanting[n] = ep
			n++
		}
	}
	clear(o.wanting[n:])
	o.wanting = o.wanting[:n]
}

func (m *Module) roomDue() bool {
	for _, ep := range m.outbox.wanting {
		if ep.err == nil && m.hasRoom(ep) {
			return true
		}
	}
	return false
}

// hasRoom reports whether a call on the endpoint, of a kind that has returned ErrAgain, can succeed
// now.
func (m *Module) hasRoom(ep *Endpoint) bool {
	d, alone := &m.frags, m.peers.Alone()
	if !m.mayTake(ep, len(m.freeSegs), alone) {
		return false
	}
	if ep.wants&wantsImmediate != 0 && ep.id.State() == stateConnected && ep.overtakes(nil) &&
		ep.snd.Open() && m.port.Command.Room() > 0 {
		return true
	}
	most := m.cfg.FragmentsMax
	asks := ep.wants&wantsAsk != 0 && m.remote.MayGet(ep.remote, alone)
	return (asks || ep.wants&wantsFragment != 0) &&
		share.MayHave(ep.descriptors, most-d.count+len(d.free), most, alone)
}

func (*checker) checkWanting(m *Module) error {
	for i, ep := range m.outbox.wanting {
		if ep.wants == 0 || ep.m != m {
			return fmt.Errorf("endpoint %d of those that want room wants none", i)
		}
	}
	listed := len(m.outbox.wanting)
	for _, ep := range m.peers.All() {
		if ep != nil && ep.wants != 0 {
			listed--
		}
	}
	if listed < 0 {
		return fmt.Errorf("%d endpoints want room and are not listed", -listed)
	}
	return nil
}
