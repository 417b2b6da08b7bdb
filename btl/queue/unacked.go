package queue

import (
	"fmt"

	"gobtl/btl"
	"gobtl/internal/byhost"
)

// Send copies a message, and the transport keeps the copy until the peer has acknowledged the
// message. A Queue counts the bytes of unacknowledged messages, so that peers that acknowledge
// nothing cannot make the Queue store more and more messages. A Send that would exceed a limit
// waits before it copies the message.

// The type "unacked" limits the bytes of the sent messages that the peers have not acknowledged.
// Only the goroutine that drives the module may use the type "unacked".
type unacked struct {
	bound byhost.Bound          // for all peers
	turns byhost.Turns[*sender] // the peers; those whose first Send waits for the bound take turns
}

const (
	// The unacknowledged messages to a peer do not count towards the limit for all peers while they
	// use at most freeBytesMax bytes, and at most 1/freeParts of Config.Bytes.
	freeBytesMax = 64 << 10
	freeParts    = 4
	// When bytes become free, notUnacked stops waking Sends when it has found failuresMax peers whose
	// first Send must still wait.
	failuresMax = 16
)

// The method "enter" begins to count the messages to a connected peer of the given host.
func (u *unacked) enter(s *sender, host string) {
	u.bound.Enter(&s.unacked, host)
	u.turns.Enter(&s.turn, host)
}

// The method "goOn" wakes the Sends to a peer that the limits allow. The unacknowledged messages to
// one peer use at most ownBytes, the Config.Bytes of the sending side. A message larger than
// ownBytes is sent when the peer has acknowledged all earlier messages. If the first waiting Send
// to a peer would exceed the limit for all peers, the peer joins the peers that take turns to send.
func (u *unacked) goOn(s *sender, ownBytes int64) {
	for s.known && len(s.waiting) > 0 {
		w := s.waiting[0]
		switch held := s.unacked.Held(); {
		case w.cost > s.window:
			w.waker.Wake(fmt.Errorf("%w: %d bytes, at most %d, queue.Config.Bytes of the receiver "+
				"(gobtl: Queue.Bytes)", ErrTooLarge, w.cost-overheadBytes, s.window-overheadBytes))
		case s.sent+w.cost > s.limit, held > 0 && held+w.cost > ownBytes:
			u.turns.Remove(&s.turn)
			return
		case !u.bound.MayAdd(&s.unacked, w.cost):
			u.turns.Wait(&s.turn)
			return
		default:
			s.sent += w.cost
			u.bound.Add(&s.unacked, w.cost)
			w.may = true
			w.waker.Wake(nil)
		}
		s.waiting = s.waiting[1:]
	}
	u.turns.Remove(&s.turn)
}

// The method "acknowledged" subtracts the bytes of a message that the peer has acknowledged, or
// that the transport does not store any more.
func (q *Queue) acknowledged(peer *btl.Endpoint, cost int64) {
	if s := q.to[peer]; s != nil { // nil after Close
		q.notUnacked(s, cost)
	}
}

// notUnacked subtracts bytes from the unacknowledged bytes of a peer, and wakes the Sends that the
// limits then allow. Sends to the same peer are woken first, then Sends to other peers of its host,
// and then Sends to the peers of other hosts, one peer after the other. No Send waits for the limit
// for all peers if all messages to its host are acknowledged.
func (q *Queue) notUnacked(s *sender, cost int64) {
	u := &q.unacked
	u.bound.Add(&s.unacked, -cost)
	q.goOn(s)
	for first := u.turns.FirstOf(&s.turn); first != nil && q.goOnAt(first); {
		first = u.turns.FirstOf(&s.turn)
	}
	if s.ended {
		q.forget(s)
	}
	for failures := 0; failures < failuresMax; {
		first := u.turns.First()
		if first == nil {
			return
		}
		if !q.goOnAt(first) {
			failures++
		}
	}
}

// goOnAt wakes the Sends to a peer whose turn it is, and reports whether the peer needs no further
// turn.
func (q *Queue) goOnAt(turn *byhost.Member[*sender]) bool {
	turns := &q.unacked.turns
	waiting := turns.Waiting()
	turns.Done(turn, false)
	q.goOn(turn.What)
	return turns.Waiting() < waiting
}

// The method "forget" deletes the state of an ended endpoint, unless the transport still stores
// messages to it.
func (q *Queue) forget(s *sender) {
	q.unacked.turns.Remove(&s.turn)
	if s.unacked.Held() > 0 {
		return
	}
	delete(q.to, s.peer)
	if s.known {
		q.unacked.bound.Leave(&s.unacked)
		q.unacked.turns.Leave(&s.turn)
	}
}
