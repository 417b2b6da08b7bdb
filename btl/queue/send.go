package queue

import (
	"context"
	"encoding/binary"
	"errors"

	"gobtl/btl"
	"gobtl/btl/runner"
)

// sender is this side's state of a peer's queue. It belongs to the driving goroutine.
type sender struct {
	asked   bool
	known   bool // the peer has told its limit
	window  int64
	limit   int64 // since the beginning, as the next one
	sent    int64
	said    int64     // of sent, with the latest hello of a Send that needs more than that leaves
	waiting []*waiter // for a larger limit, the first in front
}

// waiter is a Send that waits.
type waiter struct {
	cost  int64
	waker runner.Waker
	may   bool // its cost is counted as sent
}

func (s *sender) end(err error) {
	for _, w := range s.waiting {
		w.waker.Wake(err)
	}
	s.waiting = nil
}

// Send puts data into the peer's queue, and returns when the transport has accepted the message: at
// once if the queue has room, else when the peer has taken enough. If ctx ends first the message is
// not sent. data is copied. Errors: ErrTooLarge, or btl.ErrTooLarge if fragments are limited to
// less than the queue; ErrClosed; the error of the endpoint or of ctx. The peer must have a Queue
// on the tag: without one, Send waits until ctx ends.
func (q *Queue) Send(ctx context.Context, peer *btl.Endpoint, data []byte) error {
	if ctx == nil {
		return btl.ErrContext
	}
	w := &waiter{cost: cost(len(data))}
	err := q.r.AwaitFor(ctx, peer, func(_ *btl.Module, waker runner.Waker) error {
		return q.begin(peer, w, waker)
	})
	if err == nil {
		err = q.r.DoFor(ctx, peer, func(*btl.Module) error { return q.send(peer, kindData, data) })
	}
	if err != nil && !errors.Is(err, btl.ErrEndpoint) {
		_ = q.r.Do(context.Background(), func(*btl.Module) error { // it may have ended
			q.takeBack(peer, w)
			return nil
		})
	}
	return err
}

// begin starts a Send, which goes on or waits for a larger limit.
func (q *Queue) begin(peer *btl.Endpoint, w *waiter, waker runner.Waker) error {
	if q.isClosed() {
		return ErrClosed
	}
	if err := peer.Err(); err != nil {
		return err
	}
	s := q.to[peer]
	if s == nil {
		s = new(sender)
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
	q.goOn(peer, s)
	return nil
}

// goOn wakes the Sends within the limit. If the first one beyond it needs a limit that the peer
// does not announce by itself (a quarter of the window may stay unannounced), a hello asks for it.
func (q *Queue) goOn(peer *btl.Endpoint, s *sender) {
	s.goOn()
	if len(s.waiting) > 0 && s.known && s.said != s.sent &&
		s.waiting[0].cost > s.window-s.window/limitParts {
		q.say(q.asking, peer, func() error { return q.sendWaits(peer) })
	}
}

// sendWaits tells a peer that a Send waits until all earlier messages are taken.
func (q *Queue) sendWaits(peer *btl.Endpoint) error {
	s := q.to[peer]
	if s == nil { // it has ended meanwhile
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

func (s *sender) goOn() {
	for s.known && len(s.waiting) > 0 {
		w := s.waiting[0]
		switch {
		case w.cost > s.window:
			w.waker.Wake(ErrTooLarge)
		case s.sent+w.cost > s.limit:
			return
		default:
			s.sent += w.cost
			w.may = true
			w.waker.Wake(nil)
		}
		s.waiting = s.waiting[1:]
	}
}

// allow records a limit announced by the peer.
func (q *Queue) allow(peer *btl.Endpoint, limit, window uint64) {
	if s := q.to[peer]; s != nil && limit < 1<<62 && window < 1<<62 {
		s.known, s.window = true, int64(window)
		s.limit = max(s.limit, int64(limit))
		q.goOn(peer, s)
	}
}

// takeBack withdraws a Send that has not sent its message.
func (q *Queue) takeBack(peer *btl.Endpoint, w *waiter) {
	s := q.to[peer]
	if s == nil {
		return
	}
	if w.may {
		s.sent -= w.cost
	}
	for i := range s.waiting {
		if s.waiting[i] == w {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			break
		}
	}
	q.goOn(peer, s)
}

func (q *Queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// send sends a message, or returns an error. The caller owns the module.
func (q *Queue) send(peer *btl.Endpoint, k kind, body []byte) error {
	f, err := peer.Alloc(q.cfg.Tag, headBytes+len(body))
	if err != nil {
		return err
	}
	b := f.Bytes()
	clear(b[:headBytes])
	b[0] = byte(k)
	copy(b[headBytes:], body)
	if _, err := peer.Send(peer.Now(), f); err != nil {
		return errors.Join(err, peer.Free(f))
	}
	return nil
}
