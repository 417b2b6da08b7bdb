package peer

import (
	"fmt"
	"math"

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
		ob.wanting.Push(ep)
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

// FindRoom examines some endpoints on which a call has returned ErrAgain. If a repetition of the
// call can succeed at present, FindRoom queues a notification, and otherwise the endpoint goes to
// the end of the list. The argument "found" of FindRoom says whether a poll has found a completion,
// which can open a window or free room in a channel. If nothing has changed since all endpoints
// were examined, one call examines one endpoint.
func (ob *Outbox) FindRoom(found bool) {
	waiting := ob.wanting.Len()
	if ob.unseen = min(ob.unseen, waiting); waiting == 0 { // the usual case
		return
	}
	if found {
		ob.unseen = waiting
	}
	for range max(1, min(ob.unseen, roomLooks)) {
		ep, _ := ob.wanting.Pop()
		ob.unseen = max(0, ob.unseen-1)
		switch {
		case ep.Err() != nil || ep.wants == 0:
			ep.wants = 0
		case ob.hasRoom(ep):
			ep.wants = 0
			ob.notices.Push(Notice{Ep: ep, Kind: NoteRoom})
		default:
			ob.wanting.Push(ep)
		}
	}
}

// After resources have become free, seekRoom makes the next calls of FindRoom examine all endpoints
// on which a call has returned ErrAgain.
func (ob *Outbox) seekRoom() { ob.unseen = math.MaxInt }

// roomDue reports whether FindRoom has not examined all waiting endpoints yet.
func (ob *Outbox) roomDue() bool { return ob.unseen > 0 && ob.wanting.Len() > 0 }

// hasRoom reports whether a call that has returned ErrAgain would succeed if the application
// repeated the call now.
func (ob *Outbox) hasRoom(ep *Endpoint) bool {
	sole := ob.Peers.Soles()
	if !ob.Buffers.mayTake(ep, len(ob.Buffers.FreeSegs), sole) {
		return false
	}
	if ep.wants&wantsImmediate != 0 && ep.ID.State == StateConnected && ep.overtakes(nil) &&
		ep.Snd.Open() && ob.Port.Command.Room() > 0 {
		return true
	}
	asks := ep.wants&wantsAsk != 0 && ob.Remote.MayGet(ep.Remote, sole.Endpoint)
	return (asks || ep.wants&wantsFragment != 0) && ob.Frags.mayLend(ep, sole)
}

func (*Checker) checkWanting(all *Services) error {
	for i, ep := range all.Outbox.wanting.All() {
		if ep.wants == 0 || ep.All != all {
			return fmt.Errorf("endpoint %d of those that want room wants none", i)
		}
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
