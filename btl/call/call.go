package call

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
)

var questions = sync.Pool{New: func() any { return new(question) }}

// Call sends a request to the peer and returns the answer's body, or why there is none: ErrMethod,
// ErrBusy, ErrRequestSize, ErrAnswerSize, ErrAnswerRoom, a RemoteError, the endpoint's error, or
// that of ctx, whose deadline the handler has too; btl.ErrTooLarge if the request is larger than a
// message may be; btl.ErrNoHandler if the peer has no Node on the tag. request is copied. The
// answer is the caller's.
func (n *Node) Call(ctx context.Context, peer *btl.Endpoint, method uint16, request []byte,
) ([]byte, error) {
	return n.call(ctx, peer, head{code: method}, request, nil)
}

// CallName is Call of a method that was registered with HandleName.
func (n *Node) CallName(ctx context.Context, peer *btl.Endpoint, name string, request []byte,
) ([]byte, error) {
	if len(name) < 1 || len(name) > nameBytesMax {
		return nil, fmt.Errorf("%w: its name has %d bytes, want 1 to %d", ErrMethod, len(name),
			nameBytesMax)
	}
	return n.call(ctx, peer, head{name: name}, request, nil)
}

// call is Call of the method that h has. gone, unless it is nil, is called when ctx has ended, and
// the request cannot come to the server any more after what is sent from then on. It runs on the
// goroutine that drives the module or on the caller's, and does not block.
func (n *Node) call(ctx context.Context, peer *btl.Endpoint, h head, request []byte,
	gone func(),
) ([]byte, error) {
	if ctx == nil {
		return nil, btl.ErrContext
	}
	h.kind = kindRequest
	q := questions.Get().(*question)
	q.peer = peer
	err := n.r.AwaitFor(ctx, peer, func(_ *btl.Module, w runner.Waker) error {
		if h.id == 0 { // else this is run again, after ErrAgain
			n.lastID++
			h.id = n.lastID
		}
		if at, ok := ctx.Deadline(); ok {
			h.leftMs = leftMs(time.Until(at))
		}
		q.waker = w
		n.asked[h.id] = q
		var err error
		if q.sent, err = n.ask(peer, h, request); err != nil {
			delete(n.asked, h.id)
		}
		return err
	})
	if err != nil && !n.withdraw(h.id, peer, ctx.Err() != nil, gone) {
		return nil, err // the Runner has ended, and with it all who might look at q
	}
	st, answer := q.status, q.answer
	*q = question{}
	questions.Put(q)
	if err != nil {
		return nil, err
	}
	return answer, st.err(answer)
}

// leftMs is the time a handler has, rounded up: its caller is the first to know that it is over.
// One that waits still is not to be answered by a handler whose time has ended.
func leftMs(left time.Duration) uint32 {
	return uint32(min(max(left, 0)/time.Millisecond+1, math.MaxUint32))
}

// withdraw forgets a question that nobody waits for any more, and tells the server if cancel is
// set. It returns false if the module is gone.
//
// Small messages overtake large ones, and all overtake those that are lost. So the server is told
// when it has acknowledged the request, and not before: else it would find no call to cancel.
func (n *Node) withdraw(id uint64, peer *btl.Endpoint, cancel bool, gone func()) bool {
	err := n.r.Do(context.Background(), func(*btl.Module) error {
		q, waits := n.asked[id]
		delete(n.asked, id)
		if !cancel {
			return nil
		}
		tell := func() {
			if waits {
				n.tellCanceled(peer, id)
			}
			if gone != nil {
				gone()
			}
		}
		if waits && q.sent.id == id && q.sent.waits {
			q.sent.then = tell
		} else {
			tell()
		}
		return nil
	})
	return err == nil
}

// tellCanceled tells the server that nobody waits for a call any more.
func (n *Node) tellCanceled(peer *btl.Endpoint, id uint64) {
	h := head{id: id, kind: kindCancel}
	// A server that is not told works in vain. Nobody waits for room for that.
	if errors.Is(send(peer, n.cfg.Tag, h, nil), btl.ErrAgain) && n.begins() {
		go func() {
			defer n.work.Done()
			var msg [headBytes]byte
			h.put(msg[:])
			_ = n.r.SendBuffered(n.silent, peer, n.cfg.Tag, msg[:]) // The peer may be gone.
		}()
	}
}

// sentRequest is a request that the peer has not acknowledged: it may refuse it. It is pooled.
type sentRequest struct {
	id    uint64
	waits bool   // it is not acknowledged
	then  func() // to be called when it is, if it is set
	done  func(*btl.Fragment, error)
}

// spareMax is how many acknowledged requests are kept to be used again.
const spareMax = 1024

// ask sends a request. One that the peer's module refuses has no answer: its Call ends with that.
func (n *Node) ask(peer *btl.Endpoint, h head, request []byte) (*sentRequest, error) {
	var s *sentRequest
	if last := len(n.spare) - 1; last >= 0 {
		s, n.spare = n.spare[last], n.spare[:last]
	} else {
		s = new(sentRequest)
		s.done = func(_ *btl.Fragment, err error) {
			if q := n.asked[s.id]; q != nil && err != nil {
				if errors.Is(err, btl.ErrUnwanted) {
					err = fmt.Errorf("%w: %w", ErrRequestSize, err)
				}
				delete(n.asked, s.id)
				q.waker.Wake(err)
			}
			then := s.then
			n.keep(s)
			if then != nil && err == nil {
				then()
			}
		}
	}
	s.id, s.waits = h.id, true
	err := sendSignalled(peer, n.cfg.Tag, h, request, s.done)
	if err != nil {
		n.keep(s)
	}
	return s, err
}

func (n *Node) keep(s *sentRequest) {
	s.waits, s.then = false, nil
	if len(n.spare) < spareMax {
		n.spare = append(n.spare, s)
	}
}

// send sends a message, or nothing. The module is the caller's.
func send(peer *btl.Endpoint, tag btl.Tag, h head, body []byte) error {
	return sendSignalled(peer, tag, h, body, nil)
}

// sendSignalled is send of a message whose end is told, unless done is nil.
func sendSignalled(peer *btl.Endpoint, tag btl.Tag, h head, body []byte,
	done func(*btl.Fragment, error),
) error {
	if peer == nil {
		return btl.ErrEndpoint
	}
	f, err := peer.Alloc(tag, h.bytes()+len(body))
	if err != nil {
		return err
	}
	h.put(f.Bytes())
	copy(f.Bytes()[h.bytes():], body)
	f.Signal, f.OnDone = done != nil, done
	if _, err := peer.Send(peer.Now(), f); err != nil {
		_ = peer.Free(f) // it is the caller's still
		return err
	}
	return nil
}

// err is what a status means to the caller; text is the answer's body.
func (s status) err(text []byte) error {
	switch s {
	case statusOK:
		return nil
	case statusMethod:
		return ErrMethod
	case statusBusy:
		return ErrBusy
	case statusLate:
		return context.DeadlineExceeded
	case statusEnded:
		return context.Canceled
	case statusSize:
		return ErrAnswerSize
	case statusRoom:
		return ErrAnswerRoom
	case statusRequest:
		return ErrRequestSize
	case statusClosing:
		return ErrClosing
	default:
		return RemoteError(text)
	}
}

// receive is the handler of the Node's tag. What is no message of ours is dropped.
func (n *Node) receive(peer *btl.Endpoint, _ btl.Tag, data []byte) {
	h, name, body, ok := getHead(data)
	if !ok {
		return
	}
	switch h.kind {
	case kindAnswer:
		n.answered(peer, h, body)
	case kindRequest:
		n.serve(peer, h, name, body)
	case kindCancel:
		n.cancel(served{peer, h.id})
	}
}

// answered wakes who waits for an answer. Only the peer that was asked may give it.
func (n *Node) answered(peer *btl.Endpoint, h head, body []byte) {
	q := n.asked[h.id]
	if q == nil || q.peer != peer {
		return
	}
	delete(n.asked, h.id)
	q.answer, q.status = append([]byte(nil), body...), status(h.code)
	q.waker.Wake(nil)
}

// lost ends what has to do with an endpoint that has ended.
func (n *Node) lost(ep *btl.Endpoint) {
	for id, q := range n.asked {
		if q.peer == ep {
			delete(n.asked, id)
			err := ep.Err()
			if err == nil {
				err = btl.ErrClosed
			}
			q.waker.Wake(err)
		}
	}
	n.loseCalls(ep)
	n.streams.endOf(ep) // behind the calls, one of which may open a stream just now
}

// loseCalls ends the calls of a peer that is gone.
func (n *Node) loseCalls(ep *btl.Endpoint) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	for s, cancel := range n.running {
		if s.peer == ep {
			cancel()
		}
	}
}
