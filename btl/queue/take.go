package queue

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"

	"gobtl/btl"
	"gobtl/btl/runner"
)

// Take returns the next received message of a peer, or of any peer if the argument "peer" is nil.
// The hosts with queued messages take turns, one message each, and the peers of a host share the
// turns of their host in the same way. If no message is queued, Take waits for a message, but at
// most until ctx is cancelled. An arriving message ends the oldest waiting Take for its sender or,
// if there is none, the oldest waiting Take whose argument "peer" is nil.
//
// Take returns the messages of an endpoint even after the endpoint has ended. If the argument
// "peer" is an ended endpoint whose messages were all taken, Take returns the error of this
// endpoint. If the Runner has ended and all messages were taken, Take returns the error that ended
// the Runner, or btl.ErrClosed. In a callback, Take returns runner.ErrInHandler instead of waiting.
func (q *Queue) Take(ctx context.Context, peer *btl.Endpoint) (Message, error) {
	if ctx == nil {
		return Message{}, btl.ErrContext
	}
	if q.r == nil {
		return Message{}, runner.ErrNotStarted
	}
	if peer != nil && !q.r.Owns(peer) {
		return Message{}, btl.ErrEndpoint
	}
	msg, tell, err := q.takeOne(ctx, peer)
	if tell {
		q.tellSoon(msg.Peer)
	}
	return msg, err
}

// tellSoon sends a peer its limit on bytes. tellSoon is safe for concurrent use. In a callback,
// tellSoon starts a goroutine that sends the limit after the end of the callback. While the
// goroutine of a tellSoon waits for the module, no new limit is due for the peer.
func (q *Queue) tellSoon(peer *btl.Endpoint) {
	err := q.r.Do(context.Background(), func(*btl.Module) error {
		q.tell(peer)
		return nil
	})
	if !errors.Is(err, runner.ErrInHandler) {
		return // the Runner may have ended
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.from[peer]
	if in == nil || in.later || q.closed {
		return
	}
	in.later = true
	q.work.Go(func() {
		_ = q.r.Do(q.open, func(*btl.Module) error { // the Queue or the Runner may have ended
			q.mu.Lock()
			in.later = false
			q.mu.Unlock()
			q.tell(peer)
			return nil
		})
	})
}

// takeOne performs Take, but sends no limit on bytes. The second result of takeOne reports whether
// a new limit on bytes must be sent to the message's peer.
func (q *Queue) takeOne(ctx context.Context, peer *btl.Endpoint) (Message, bool, error) {
	q.mu.Lock()
	msg, tell := q.next(peer)
	if msg.Peer != nil {
		q.mu.Unlock()
		return msg, tell, nil
	}
	t := q.wait(peer)
	q.mu.Unlock()
	return q.await(ctx, t)
}

// The method "next" removes and returns a message, if there is one. The result "tell" of the method
// "next" reports whether a new limit on bytes must be sent to the message's peer. The caller holds
// q.mu.
func (q *Queue) next(peer *btl.Endpoint) (msg Message, tell bool) {
	in := q.readyOf(peer)
	if in == nil {
		return msg, false
	}
	msg = Message{Peer: in.peer, Data: in.messages[0]}
	in.messages[0] = nil
	c := cost(len(msg.Data))
	in.taken += c
	if !in.ended {
		q.held -= c
	}
	in.messages = in.messages[1:]
	again := len(in.messages) > 0
	q.ready.Done(&in.turn, again)
	switch {
	case again:
		q.gone.Shrink(in, c)
	case in.ended:
		q.gone.Remove(in)
		delete(q.left, in.peer)
		q.ready.Leave(&in.turn)
	}
	return msg, in.due(q.cfg.Bytes)
}

// readyOf returns the inbox (queue of received messages) from which Take takes the next message, or
// nil if all inboxes are empty. If the argument "peer" is not nil, readyOf returns only an inbox of
// this peer. The caller holds q.mu.
func (q *Queue) readyOf(peer *btl.Endpoint) *inbox {
	if peer == nil {
		if first := q.ready.First(); first != nil {
			return first.What
		}
		return nil
	}
	in := q.from[peer]
	if in == nil {
		in = q.left[peer]
	}
	if in == nil || len(in.messages) == 0 {
		return nil
	}
	return in
}

// The method "tell" sends a peer its limit on bytes, at once or when a send buffer is free. Only
// the goroutine that drives the module may call the method "tell".
func (q *Queue) tell(peer *btl.Endpoint) {
	q.say(q.telling, peer, func() error { return q.sendLimit(peer) })
}

// The method "say" calls the argument "send", a function that sends a control message. If no send
// buffer is free, the method "say" starts a goroutine that waits for a send buffer and calls the
// function "send" again. The map "waits" contains the peers for which a goroutine already waits for
// a send buffer. Only the goroutine that drives the module may call the method "say".
func (q *Queue) say(waits map[*btl.Endpoint]bool, peer *btl.Endpoint, send func() error) {
	if waits[peer] || !errors.Is(send(), btl.ErrAgain) || q.open.Err() != nil {
		return
	}
	waits[peer] = true
	q.work.Add(1)
	go func() {
		defer q.work.Done()
		_ = q.r.DoFor(q.open, peer, func(*btl.Module) error {
			err := send()
			if err == nil {
				delete(waits, peer) // a later change must be sent again
			}
			return err
		})
		_ = q.r.Do(context.Background(), func(*btl.Module) error {
			delete(waits, peer)
			return nil
		})
	}()
}

// sendLimit sends a peer its limit on bytes. The calling goroutine must own the module.
func (q *Queue) sendLimit(peer *btl.Endpoint) error {
	taken := q.takenOf(peer)
	var body [limitBytes]byte
	binary.LittleEndian.PutUint64(body[:], uint64(taken+q.cfg.Bytes))
	binary.LittleEndian.PutUint64(body[8:], uint64(q.cfg.Bytes))
	err := q.send(peer, kindLimit, body[:])
	if err == nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		if in := q.from[peer]; in != nil { // nil if the endpoint has ended
			in.told = max(in.told, taken)
		}
	}
	return err
}

func (q *Queue) takenOf(peer *btl.Endpoint) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if in := q.from[peer]; in != nil {
		return in.taken
	}
	return 0
}

// Close ends waiting Sends and Takes with ErrClosed. After Close, Take still returns the messages
// that were received before Close, but later messages are dropped. Close waits until the Queue's
// own goroutines have ended, or until ctx is cancelled. If ctx is cancelled while Close waits,
// Close returns the error of ctx, and the Queue's goroutines end when the Runner ends. Close does
// not close the Runner. In a callback, Close has no effect and returns runner.ErrInHandler.
func (q *Queue) Close(ctx context.Context) error {
	if ctx == nil {
		return btl.ErrContext
	}
	if q.r != nil && q.r.InCallback() {
		return runner.ErrInHandler
	}
	q.mu.Lock()
	q.closed = true
	for peer := range q.takers {
		q.endWaits(peer, ErrClosed)
	}
	q.mu.Unlock()
	err := q.r.Do(ctx, func(*btl.Module) error {
		q.end()
		for ep, s := range q.to {
			s.end(ErrClosed)
			delete(q.to, ep)
		}
		return nil
	})
	q.end()
	ended := make(chan struct{})
	go func() {
		q.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		return cmp.Or(err, ctx.Err())
	}
}
