package btl

import (
	"fmt"

	"gobtl/btl/internal/share"
)

// wants is the kinds of calls of an endpoint that have returned ErrAgain.
type wants uint8

const (
	wantsFragment  wants = 1 << iota // Alloc, and what is prepared
	wantsImmediate                   // SendImmediate
)

// OnRoom registers a function that Progress calls when there is room again. After a call on an
// endpoint has returned ErrAgain, fn is called once, when a call of that kind would succeed. The
// room may not suffice for a larger call, or others may take it first: then the call returns
// ErrAgain again, and fn is called again later. An owner that pulls (PullCompletions) gets
// CompletionRoom instead, even without a function. There are no calls for an ended endpoint.
func (m *Module) OnRoom(fn func(ep *Endpoint)) { m.outbox.onRoom = fn }

// again returns ErrAgain, and notes that the owner may want to know of new room.
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

// findRoom queues notices for the endpoints that have room again.
func (m *Module) findRoom() {
	o, n := &m.outbox, 0
	if len(o.wanting) == 0 { // as it mostly is
		return
	}
	for _, ep := range o.wanting {
		switch {
		case ep.err != nil || ep.wants == 0:
			ep.wants = 0
		case m.hasRoom(ep):
			ep.wants = 0
			o.notices.push(notice{ep: ep, kind: CompletionRoom})
		default:
			o.wanting[n] = ep
			n++
		}
	}
	clear(o.wanting[n:])
	o.wanting = o.wanting[:n]
}

// roomDue says whether a pass has a notice of room to deliver.
func (m *Module) roomDue() bool {
	for _, ep := range m.outbox.wanting {
		if ep.err == nil && m.hasRoom(ep) {
			return true
		}
	}
	return false
}

// hasRoom says whether there is room for what an endpoint wants.
func (m *Module) hasRoom(ep *Endpoint) bool {
	d, alone := &m.frags, m.peers.Alone()
	if !m.mayTake(ep, len(m.freeSegs), alone) {
		return false
	}
	if ep.wants&wantsImmediate != 0 && ep.id.State() == stateConnected && ep.overtakes() &&
		ep.snd.Open() && m.port.Command.Room() > 0 {
		return true
	}
	most := m.cfg.FragmentsMax
	return ep.wants&wantsFragment != 0 && !m.remote.Full() && !ep.remote.Full() &&
		share.MayHave(ep.descriptors, most-d.count+len(d.free), most, alone)
}

// checkWanting proves that the endpoints which want room, and no others, are on the list.
func (m *Module) checkWanting(*checker) error {
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
