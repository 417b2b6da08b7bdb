package peer

import (
	"fmt"

	"gobtl/btl/internal/share"
)

// wants is a set of the kinds of calls that have returned ErrAgain on an endpoint.
type wants uint8

const (
	wantsFragment  wants = 1 << iota // Alloc and the Prepare methods
	wantsImmediate                   // SendImmediate
	wantsAsk                         // PrepareGet and PrepareAtomic
)

// The method "again" returns ErrAgain, and records that the application must be notified when a
// call of the given kind can succeed.
func (ob *Outbox) again(ep *Endpoint, what wants) error {
	if !ob.tellsRoom && !ob.Pulled || ep.Err() != nil {
		return ErrAgain
	}
	if ep.wants == 0 {
		ob.wanting = append(ob.wanting, ep)
		ob.Rest.Stir()
	}
	ep.wants |= what
	return ErrAgain
}

// FindRoom queues a notification for each endpoint on which a call that has returned ErrAgain can
// succeed at present.
func (ob *Outbox) FindRoom() {
	if len(ob.wanting) == 0 { // the usual case
		return
	}
	n := 0
	for _, ep := range ob.wanting {
		switch {
		case ep.Err() != nil || ep.wants == 0:
			ep.wants = 0
		case ob.hasRoom(ep):
			ep.wants = 0
			ob.notices.Push(Notice{Ep: ep, Kind: NoteRoom})
		default:
			ob.wanting[n] = ep
			n++
		}
	}
	clear(ob.wanting[n:])
	ob.wanting = ob.wanting[:n]
}

// roomDue reports whether FindRoom would queue a notification.
func (ob *Outbox) roomDue() bool {
	for _, ep := range ob.wanting {
		if ep.Err() == nil && ob.hasRoom(ep) {
			return true
		}
	}
	return false
}

// hasRoom reports whether a call that has returned ErrAgain would succeed if the application
// repeated the call now.
func (ob *Outbox) hasRoom(ep *Endpoint) bool {
	sole := ob.Peers.Sole()
	if !share.MayHave(int(ep.buffers), len(ob.Buffers.FreeSegs), len(ob.Buffers.segs), sole) {
		return false
	}
	if ep.wants&wantsImmediate != 0 && ep.ID.State == StateConnected && ep.overtakes(nil) &&
		ep.Snd.Open() && ob.Port.Command.Room() > 0 {
		return true
	}
	most := ob.Config.FragmentsMax
	asks := ep.wants&wantsAsk != 0 && ob.Remote.MayGet(ep.Remote, sole)
	return (asks || ep.wants&wantsFragment != 0) &&
		share.MayHave(int(ep.descriptors), most-ob.Frags.count+len(ob.Frags.idle), most, sole)
}

func (*Checker) checkWanting(all *Services) error {
	for i, ep := range all.Outbox.wanting {
		if ep.wants == 0 || ep.All != all {
			return fmt.Errorf("endpoint %d of those that want room wants none", i)
		}
	}
	listed := len(all.Outbox.wanting)
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
