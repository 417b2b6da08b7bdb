package queue

import (
	"cmp"
	"context"
	"sync"

	"gobtl/btl"
	"gobtl/btl/runner"
)

// The type "taker" is a Take that waits for a message. While a taker waits, no message that it
// could take is in an inbox, because an arriving message goes directly to one taker.
type taker struct {
	peer       *btl.Endpoint // the sender of the message, or nil for any sender
	next, prev *taker        // in the ring of waiting takers with the same peer; nil after the wait
	msg        Message
	tell       bool // a new limit on bytes must be sent to the message's peer
	err        error
	ended      chan struct{} // contains a value after the wait
}

var takers = sync.Pool{New: func() any { return &taker{ended: make(chan struct{}, 1)} }}

// The method "wait" makes a Take wait for a message of a peer, or of any peer if the argument
// "peer" is nil. If the Queue has closed, the wait ends at once. The caller holds q.mu.
func (q *Queue) wait(peer *btl.Endpoint) *taker {
	t := takers.Get().(*taker)
	t.peer, t.next, t.prev = peer, t, t
	if first := q.takers[peer]; first != nil {
		t.next, t.prev = first, first.prev
		t.prev.next, first.prev = t, t
	} else {
		q.takers[peer] = t
	}
	if q.closed {
		q.endWait(t, Message{}, false, ErrClosed)
	}
	return t
}

// endWait ends the wait of a Take, which returns a message or an error. If the wait has ended
// already, endWait does nothing. The caller holds q.mu.
func (q *Queue) endWait(t *taker, msg Message, tell bool, err error) {
	switch {
	case t.next == nil:
		return
	case t.next == t:
		delete(q.takers, t.peer)
	case q.takers[t.peer] == t:
		q.takers[t.peer] = t.next
	}
	t.prev.next, t.next.prev = t.next, t.prev
	t.next, t.prev = nil, nil
	t.msg, t.tell, t.err = msg, tell, err
	t.ended <- struct{}{}
}

// endWaits ends the waits of all Takes that wait for a message of the given peer. The caller holds
// q.mu.
func (q *Queue) endWaits(peer *btl.Endpoint, err error) {
	for t := q.takers[peer]; t != nil; t = q.takers[peer] {
		q.endWait(t, Message{}, false, err)
	}
}

// giveUp ends the wait of a Take with an error, unless the wait has ended already.
func (q *Queue) giveUp(t *taker, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endWait(t, Message{}, false, err)
}

// The method "pass" passes an arrived message to the oldest Take that waits for a message of the
// inbox's peer or, if there is none, to the oldest Take that waits for a message of any peer. The
// result of the method "pass" is false if no Take waits. The caller holds q.mu.
func (q *Queue) pass(in *inbox, data []byte) bool {
	t := cmp.Or(q.takers[in.peer], q.takers[nil])
	if t == nil {
		return false
	}
	in.taken += cost(len(data))
	q.ready.Done(&in.turn, false)
	q.endWait(t, Message{Peer: in.peer, Data: data}, in.due(q.cfg.Bytes), nil)
	return true
}

// The method "await" waits until the wait of a Take ends, and returns the results of the wait. In a
// callback, the method "await" ends the wait at once.
func (q *Queue) await(ctx context.Context, t *taker) (msg Message, tell bool, err error) {
	if ctx.Err() == nil && q.r.InCallback() {
		q.giveUp(t, runner.ErrInHandler)
	} else if peer := t.peer; peer != nil {
		if err := q.r.Do(ctx, func(*btl.Module) error { return peer.Err() }); err != nil {
			q.giveUp(t, err)
		}
	}
	select {
	case <-t.ended:
	case <-ctx.Done():
		q.giveUp(t, ctx.Err())
		<-t.ended
	case <-q.r.Done():
		q.giveUp(t, cmp.Or(q.r.Err(), btl.ErrClosed))
		<-t.ended
	}
	msg, tell, err = t.msg, t.tell, t.err
	*t = taker{ended: t.ended}
	takers.Put(t)
	return msg, tell, err
}
