package queue

import (
	"context"
	"encoding/binary"
	"errors"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/internal/byhost"
)

// The type "sender" is the state of the sending side for one peer's queue, with the peer's limit
// and the waiting Sends. Only the goroutine that drives the module may use the type "sender".
type sender struct {
	peer    *btl.Endpoint
	asked   bool
	known   bool // the peer has sent its limit
	ended   bool // the endpoint has ended
	window  int64
	limit   int64 // total number of bytes, like the next field
	sent    int64
	said    int64                  // value of sent in the latest hello that asks for a larger limit
	waiting []*waiter              // Sends that wait for a limit, first come first
	unacked byhost.Holder          // bytes of messages that the peer has not acknowledged
	turn    byhost.Member[*sender] // in unacked.turns
}

// The type "waiter" is a Send that waits until the limits on bytes allow its message.
type waiter struct {
	cost  int64
	waker runner.Waker
	may   bool // the Send may proceed: its cost is part of sent
}

func (s *sender) end(err error) {
	for _, w := range s.waiting {
		w.waker.Wake(err)
	}
	s.waiting = nil
}

// Send puts a copy of data into the peer's queue, and returns when the transport has accepted the
// message. If the peer's queue is full, Send waits until the peer has taken enough messages with
// Take. If the sent messages have reached the limits Config.Bytes or Config.TotalBytes, Send waits
// until peers have acknowledged enough of them. If ctx is cancelled while Send waits, the message
// is not sent. Send returns ErrTooLarge if data is larger than the peer's queue, and
// btl.ErrTooLarge if data exceeds the maximum size of a fragment. Send returns ErrClosed after
// Close of the Queue, the error of the endpoint if the endpoint has ended, or the error of ctx. If
// the peer has no Queue with the same tag, Send waits until ctx is cancelled.
func (q *Queue) Send(ctx context.Context, peer *btl.Endpoint, data []byte) error {
	if ctx == nil {
		return btl.ErrContext
	}
	w := &waiter{cost: cost(len(data))}
	err := q.r.AwaitFor(ctx, peer, func(_ *btl.Module, waker runner.Waker) error {
		return q.begin(peer, w, waker)
	})
	if err == nil {
		err = q.r.DoFor(ctx, peer, func(*btl.Module) error { return q.sendData(peer, w, data) })
	}
	if err != nil && !errors.Is(err, btl.ErrEndpoint) {
		_ = q.r.Do(context.Background(), func(*btl.Module) error { // the Runner may have ended
			q.takeBack(peer, w)
			return nil
		})
	}
	return err
}

// The method "begin" starts a Send, which proceeds immediately, or waits until the peer raises its
// limit on bytes.
func (q *Queue) begin(peer *btl.Endpoint, w *waiter, waker runner.Waker) error {
	if q.isClosed() {
		return ErrClosed
	}
	if err := peer.Err(); err != nil {
		return err
	}
	s := q.to[peer]
	if s == nil {
		s = &sender{peer: peer}
		s.turn.What = s
		q.to[peer] = s
	}
	if !s.asked {
		if err := q.send(peer, kindHello, nil); err != nil {
			return err
		}
		s.asked = true
	}
	w.waker = waker
	s.waiting = append(s.waiting, w)
	q.goOn(s)
	return nil
}

// goOn wakes the Sends to a peer that the limits on bytes allow. The window is the size, in bytes,
// of the peer's queue. The peer normally raises its limit only after its program has taken a
// quarter of the window out of the queue, so a message of more than three quarters of the window
// could wait forever. If the first waiting Send has a message of more than three quarters of the
// window, goOn sends the peer a hello message with a number. After a hello message with a number,
// the peer also raises its limit when its queue is empty.
func (q *Queue) goOn(s *sender) {
	q.unacked.goOn(s, q.cfg.Bytes)
	if len(s.waiting) > 0 && s.known && s.said != s.sent &&
		s.waiting[0].cost > s.window-s.window/limitParts {
		q.say(q.asking, s.peer, func() error { return q.sendWaits(s.peer) })
	}
}

// sendWaits sends a hello with a number, which tells the peer that a Send of this side waits until
// the peer has taken all earlier messages.
func (q *Queue) sendWaits(peer *btl.Endpoint) error {
	s := q.to[peer]
	if s == nil || s.ended {
		return nil
	}
	var body [waitsBytes]byte
	binary.LittleEndian.PutUint64(body[:], uint64(s.sent))
	err := q.send(peer, kindHello, body[:])
	if err == nil {
		s.said = s.sent
	}
	return err
}

// The method "allow" records a limit on bytes that was received from the peer, and wakes the Sends
// that this limit allows.
func (q *Queue) allow(peer *btl.Endpoint, limit, window uint64) {
	if s := q.to[peer]; s != nil && !s.ended && limit < 1<<62 && window < 1<<62 {
		if !s.known {
			s.known = true
			q.unacked.enter(s, q.hostOf(peer))
		}
		s.window, s.limit = int64(window), max(s.limit, int64(limit))
		q.goOn(s)
	}
}

// takeBack removes a waiting Send whose message was not sent yet.
func (q *Queue) takeBack(peer *btl.Endpoint, w *waiter) {
	s := q.to[peer]
	if s == nil {
		return
	}
	if w.may {
		s.sent -= w.cost
		q.notUnacked(s, w.cost)
		return
	}
	for i := range s.waiting {
		if s.waiting[i] == w {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			break
		}
	}
	q.goOn(s)
}

func (q *Queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// sendData sends the message of a Send. The bytes of the message count as unacknowledged until the
// peer has acknowledged the message. A message that the transport has copied into a send buffer no
// longer counts, because btl.Config.SendBuffers limits the memory of send buffers.
func (q *Queue) sendData(peer *btl.Endpoint, w *waiter, data []byte) error {
	st, err := q.sendWith(peer, kindData, data, q.onDone, uint64(w.cost))
	if st == btl.Done {
		q.acknowledged(peer, w.cost)
	}
	return err
}

// The method "send" sends a message. The calling goroutine must own the module.
func (q *Queue) send(peer *btl.Endpoint, k kind, body []byte) error {
	_, err := q.sendWith(peer, k, body, nil, 0)
	return err
}

// sendWith works like the method "send". If the result is btl.Queued, the function "done" is called
// when the message is acknowledged or has failed, and the Context of its Fragment is the argument
// "context".
func (q *Queue) sendWith(peer *btl.Endpoint, k kind, body []byte,
	done func(*btl.Fragment, error), context uint64,
) (btl.Status, error) {
	f, err := peer.Alloc(q.cfg.Tag, headBytes+len(body))
	if err != nil {
		return 0, err
	}
	b := f.Bytes()
	clear(b[:headBytes])
	b[0] = byte(k)
	copy(b[headBytes:], body)
	f.OnDone, f.Context = done, context
	st, err := peer.Send(peer.Now(), f)
	if err != nil {
		return 0, errors.Join(err, peer.Free(f))
	}
	return st, nil
}
