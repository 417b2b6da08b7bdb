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

// Call sends a request to the peer and returns the body of the answer, or an error: ErrMethod,
// ErrBusy, ErrRequestSize, ErrAnswerSize, ErrAnswerRoom, a RemoteError, the error of the endpoint
// or of ctx, whose deadline holds for the handler too; btl.ErrTooLarge if the request is larger
// than a message may be; btl.ErrNoHandler if the peer has no Node on the tag. request is copied.
// The caller owns the answer.
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

// call is Call of the method in h. gone, unless it is nil, is called after ctx has ended, once the
// request can no longer arrive at the server behind messages sent later. It runs on the goroutine
// that drives the module or on the caller's, and does not block.
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

// leftMs is the time that a handler has, rounded up, so that the caller times out first: a
// handler's time-out must not answer a caller that is still waiting.
func leftMs(left time.Duration) uint32 {
	return uint32(min(max(left, 0)/time.Millisecond+1, math.MaxUint32))
}

// withdraw removes an abandoned call, and sends the server a cancel if cancel is set. It returns
// false if the module is gone.
//
// Small messages overtake large ones, and all overtake retransmitted ones. So the cancel is sent
// only after the server has acknowledged the request: earlier, the server might find no call to
// cancel.
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

// tellCanceled tells the server that a call was abandoned.
func (n *Node) tellCanceled(peer *btl.Endpoint, id uint64) {
	h := head{id: id, kind: kindCancel}
	// Without the cancel the server works in vain. No caller waits for room to send it.
	if errors.Is(send(peer, n.cfg.Tag, h, nil), btl.ErrAgain) && n.begins() {
		go func() {
			defer n.work.Done()
			var msg [headBytes]byte
			h.put(msg[:])
			_ = n.r.SendBuffered(n.silent, peer, n.cfg.Tag, msg[:]) // The peer may be gone.
		}()
	}
}

// sentRequest is a request that the peer has not acknowledged, and may refuse. It is pooled.
type sentRequest struct {
	id    uint64
	waits bool   // it is not acknowledged
	then  func() // to be called when it is, if it is set
	done  func(*btl.Fragment, error)
}

// spareMax is how many acknowledged requests are kept to be used again.
const spareMax = 1024

// ask sends a request. A request that the peer's module refuses has no answer: its Call returns
// that error.
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

// send sends a message, or returns an error. The caller owns the module.
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

// err is the error that a Call returns for a status; text is the answer's body.
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

// receive is the handler of the Node's tag. Malformed messages are dropped.
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

// answered wakes the Call that waits for an answer. Only an answer of the called peer counts.
func (n *Node) answered(peer *btl.Endpoint, h head, body []byte) {
	q := n.asked[h.id]
	if q == nil || q.peer != peer {
		return
	}
	delete(n.asked, h.id)
	q.answer, q.status = append([]byte(nil), body...), status(h.code)
	q.waker.Wake(nil)
}

// lost ends the calls and streams of an endpoint that has ended.
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
