package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"gobtl/btl"
	"gobtl/btl/runner"
)

// Take returns a message that has come from a peer; of nil from any, each in turn. It waits as long
// as ctx allows. What came before a peer's endpoint ended is taken still; then its error is
// returned, if that peer was asked for.
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
	for {
		msg, tell, more := q.next(peer)
		if tell {
			_ = q.r.Do(context.Background(), func(*btl.Module) error { // it may have ended
				q.tell(msg.Peer)
				return nil
			})
		}
		if msg.Peer != nil {
			return msg, nil
		}
		if err := q.over(ctx, peer); err != nil {
			if msg, _, _ = q.next(peer); msg.Peer != nil { // it has come meanwhile
				return msg, nil
			}
			return Message{}, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
}

// over says why nothing will come any more, nil if something may.
func (q *Queue) over(ctx context.Context, peer *btl.Endpoint) error {
	if q.isClosed() {
		return ErrClosed
	}
	if peer == nil {
		return nil
	}
	return q.r.Do(ctx, func(*btl.Module) error { return peer.Err() })
}

// next takes a message, if there is one, and says whether its sender is to be told by now. If there
// is none, more is closed when there may be.
func (q *Queue) next(peer *btl.Endpoint) (msg Message, tell bool, more chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, in := range q.ready {
		if peer != nil && in.peer != peer {
			continue
		}
		q.ready = slices.Delete(q.ready, i, i+1)
		msg = Message{Peer: in.peer, Data: in.messages[0]}
		in.messages[0] = nil
		c := cost(len(msg.Data))
		in.taken += c
		if in.messages = in.messages[1:]; len(in.messages) > 0 {
			q.ready = append(q.ready, in)
			q.gone.Shrink(in, c)
		} else {
			q.gone.Remove(in)
		}
		return msg, in.due(q.cfg.Bytes), nil
	}
	return msg, false, q.more
}

// tell tells a sender its limit. It is called by who drives.
func (q *Queue) tell(peer *btl.Endpoint) {
	q.say(q.telling, peer, func() error { return q.sendLimit(peer) })
}

// say sends what send does; where there is no room now a goroutine waits, one for each peer and
// kind. It is called by who drives.
func (q *Queue) say(waits map[*btl.Endpoint]bool, peer *btl.Endpoint, send func() error) {
	if waits[peer] || !errors.Is(send(), btl.ErrAgain) || q.open.Err() != nil {
		return
	}
	waits[peer] = true
	q.work.Add(1)
	go func() {
		defer q.work.Done()
		// It ends with the endpoint, the Queue, or the Runner.
		_ = q.r.DoFor(q.open, peer, func(*btl.Module) error {
			err := send()
			if err == nil {
				delete(waits, peer) // what is new from now on is to be said again
			}
			return err
		})
		_ = q.r.Do(context.Background(), func(*btl.Module) error {
			delete(waits, peer)
			return nil
		})
	}()
}

// sendLimit sends what a peer may have sent by now. The module is the caller's.
func (q *Queue) sendLimit(peer *btl.Endpoint) error {
	taken := q.takenOf(peer)
	var body [limitBytes]byte
	binary.LittleEndian.PutUint64(body[:], uint64(taken+q.cfg.Bytes))
	binary.LittleEndian.PutUint64(body[8:], uint64(q.cfg.Bytes))
	err := q.send(peer, kindLimit, body[:])
	if err == nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		if in := q.from[peer]; in != nil { // else it has ended
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

// Close ends the Sends and Takes that wait, with ErrClosed; what has come is taken still. What
// comes from then on is dropped. The Runner is its owner's.
func (q *Queue) Close(ctx context.Context) error {
	if ctx == nil {
		return btl.ErrContext
	}
	q.mu.Lock()
	q.closed = true
	q.wake()
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
	q.work.Wait()
	return err
}
