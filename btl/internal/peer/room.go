package peer

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

// again returns ErrAgain, and records that the application must be notified when a call of the
// given kind can succeed.
func (ob *Outbox) again(ep *Endpoint, what wants) error {
	o := ob
	if !o.tellsRoom && !o.Pulled || ep.err != nil {
		return ErrAgain
	}
	if ep.wants == 0 {
		o.Wanting = append(o.Wanting, ep)
		ob.Rest.Stir()
	}
	ep.wants |= what
	return ErrAgain
}

// FindRoom queues notifications for the endpoints on which a call that returned ErrAgain can
// succeed now.
func (ob *Outbox) FindRoom() {
	o, n := ob, 0
	if len(o.Wanting) == 0 { // the usual case
		return
	}
	for _, ep := range o.Wanting {
		switch {
		case ep.err != nil || ep.wants == 0:
			ep.wants = 0
		case ob.HasRoom(ep):
			ep.wants = 0
			o.Notices.Push(Notice{Ep: ep, Kind: NoteRoom})
		default:
			o.Wanting[n] = ep
			n++
		}
	}
	clear(o.Wanting[n:])
	o.Wanting = o.Wanting[:n]
}

// RoomDue reports whether FindRoom would queue a notification.
func (ob *Outbox) RoomDue() bool {
	for _, ep := range ob.Wanting {
		if ep.err == nil && ob.HasRoom(ep) {
			return true
		}
	}
	return false
}

// HasRoom reports whether a call on the endpoint, of a kind that has returned ErrAgain, can succeed
// now.
func (ob *Outbox) HasRoom(ep *Endpoint) bool {
	d, alone := &ob.Frags, ob.Peers.Alone()
	if !ob.Buffers.mayTake(ep, len(ob.Buffers.FreeSegs), alone) {
		return false
	}
	if ep.wants&wantsImmediate != 0 && ep.ID.State() == StateConnected && ep.overtakes(nil) &&
		ep.Snd.Open() && ob.Port.Command.Room() > 0 {
		return true
	}
	most := ob.Config.FragmentsMax
	asks := ep.wants&wantsAsk != 0 && ob.Remote.MayGet(ep.Remote, alone)
	return (asks || ep.wants&wantsFragment != 0) &&
		share.MayHave(int(ep.Descriptors), most-d.Count+len(d.Idle), most, alone)
}

func (*Checker) checkWanting(all *Services) error {
	for i, ep := range all.Outbox.Wanting {
		if ep.wants == 0 || ep.all != all {
			return fmt.Errorf("endpoint %d of those that want room wants none", i)
		}
	}
	listed := len(all.Outbox.Wanting)
	for _, ep := range all.Peers.All() {
		if ep != nil && ep.wants != 0 {
			listed--
		}
	}
	if listed < 0 {
		return fmt.Errorf("%d endpoints want room and are not listed", -listed)
	}
	return nil
}
