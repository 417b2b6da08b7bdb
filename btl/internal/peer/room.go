package peer

import (
	"fmt"

	"gobtl/btl/internal/errs"
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
		return errs.ErrAgain
	}
	if ep.wants == 0 {
		ob.wanting.Push(ep.ID.Host, ep)
		ob.Rest.Stir()
	}
	if ep.wants&what == 0 {
		ob.seekRoom()
	}
	ep.wants |= what
	return errs.ErrAgain
}

// roomLooks is the maximum number of waiting endpoints that one call of FindRoom examines, so that
// the time of a pass does not depend on the number of waiting endpoints.
const roomLooks = 4

// FindRoom examines some endpoints on which a call has returned ErrAgain. The hosts of these
// endpoints take turns. If the application's call can succeed now, FindRoom queues a notification.
// The argument "found" of FindRoom says whether a poll has found a completion, which can open a
// window or free room in a channel. If nothing has changed since all endpoints were examined, one
// call of FindRoom examines one endpoint.
func (ob *Outbox) FindRoom(found bool) {
	if ob.wanting.Len() == 0 { // the usual case
		return
	}
	if found {
		ob.wanting.Renew()
	}
	for range roomLooks {
		if ob.wanting.Look(ob.waits); !ob.wanting.Due() {
			break
		}
	}
}

// The method "waits" examines an endpoint on which a call has returned ErrAgain, and reports
// whether the endpoint still has to wait for room.
func (ob *Outbox) waits(ep *Endpoint) bool {
	switch {
	case ep.Err() != nil:
		ep.wants = 0
	case ep.wants != 0 && !ob.hasRoom(ep):
		return true
	case ep.wants != 0:
		ep.wants = 0
		ob.notices.Push(Notice{Ep: ep, Kind: NoteRoom})
	}
	return false
}

// After resources have become free, seekRoom makes the next calls of FindRoom examine all endpoints
// on which a call has returned ErrAgain.
func (ob *Outbox) seekRoom() { ob.wanting.Renew() }

// roomDue reports whether FindRoom has not examined all waiting endpoints yet.
func (ob *Outbox) roomDue() bool { return ob.wanting.Due() }

// hasRoom reports whether a call that has returned ErrAgain would succeed if the application
// repeated the call now.
func (ob *Outbox) hasRoom(ep *Endpoint) bool {
	if !ob.Buffers.mayTake(ep, len(ob.Buffers.FreeSegs)) {
		return false
	}
	if ep.wants&wantsImmediate != 0 && ep.ID.State == StateConnected && ep.overtakes(nil) &&
		ep.Snd.Open() && ep.roomOn(&ob.Port.Command) > 0 {
		return true
	}
	asks := ep.wants&wantsAsk != 0 && ob.Remote.MayGet(ep.Remote, ob.Peers.Sole())
	return (asks || ep.wants&wantsFragment != 0) && ob.Frags.mayLend(ep)
}

func (*Checker) checkWanting(all *Services) error {
	wrong := 0
	all.Outbox.wanting.Each(func(ep *Endpoint) {
		if ep.wants == 0 || ep.All != all {
			wrong++
		}
	})
	if wrong > 0 {
		return fmt.Errorf("%d endpoints of those that want room want none", wrong)
	}
	listed := all.Outbox.wanting.Len()
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
