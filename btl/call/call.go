package call

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/internal/plain"
)

var questions = sync.Pool{New: func() any { return new(question) }}

// Call sends a request to the peer and returns the body of the answer, which the caller may keep.
// Call copies the request, so the caller is free to change the request's memory after Call has
// returned. Call waits if too many earlier requests are unacknowledged (Config.RequestBytes). The
// handler's context has the deadline of ctx. The error of Call is ErrMethod, ErrBusy,
// ErrRequestSize, ErrAnswerSize, ErrAnswerRoom, ErrClosing, a RemoteError, the error of the
// endpoint, the error of ctx, or one of the errors in the list below. If the server reports the end
// of the handler's context, but ctx has not ended, the error of Call is a RemoteError.
//
//   - Call returns btl.ErrTooLarge if the request exceeds the size limit of a message.
//   - Call returns btl.ErrNoHandler if the peer has no Node with the same tag.
func (n *Node) Call(ctx context.Context, peer *btl.Endpoint, method uint16, request []byte,
) ([]byte, error) {
	return n.call(ctx, peer, head{code: method}, request, callOptions{})
}

// CallName calls a method that the server has registered with HandleName, and otherwise works like
// Call.
func (n *Node) CallName(ctx context.Context, peer *btl.Endpoint, name string, request []byte,
) ([]byte, error) {
	if len(name) < 1 || len(name) > nameBytesMax {
		return nil, fmt.Errorf("%w: its name has %d bytes, want 1 to %d", ErrMethod, len(name),
			nameBytesMax)
	}
	return n.call(ctx, peer, head{name: name}, request, callOptions{})
}

// callOptions are the options of a call that belongs to a stream. The zero callOptions are those of
// an ordinary call.
type callOptions struct {
	// ofStream means that an answer of more than streamAnswerBytes is dropped, and that the call fails
	// with ErrAnswerSize.
	ofStream bool
	// If ctx is cancelled, the method "call" arranges that the function "gone" is called as soon as
	// the peer has acknowledged the request or the request has failed. After the call of "gone", the
	// request has either arrived or will never arrive. If the request was not sent, "gone" is not
	// called. The function "gone" can be nil, and must not block, because it might run on the
	// goroutine that drives the module.
	gone func()
}

// The method "call" performs Call and CallName for the method that the header h identifies.
func (n *Node) call(ctx context.Context, peer *btl.Endpoint, h head, request []byte,
	options callOptions,
) ([]byte, error) {
	if ctx == nil {
		return nil, btl.ErrContext
	}
	h.kind = kindRequest
	q := questions.Get().(*question)
	q.peer, q.ofStream = peer, options.ofStream
	err := n.r.AwaitFor(ctx, peer, func(_ *btl.Module, w runner.Waker) error {
		if !n.asks.mayAsk(peer, len(request)) {
			return btl.ErrAgain
		}
		if h.id == 0 { // otherwise the function runs again after ErrAgain
			n.lastID++
			h.id = n.lastID
		}
		if at, ok := ctx.Deadline(); ok {
			h.leftMs = leftMs(time.Until(at))
		}
		q.waker = w
		n.note(h.id, q)
		var err error
		if q.sent, err = n.ask(peer, h, request); err != nil {
			n.drop(h.id, q)
			q.sent = nil
		}
		return err
	})
	if q.sent == nil {
		options.gone = nil
	}
	if err != nil && !n.withdraw(h.id, peer, ctx.Err() != nil, options.gone) {
		return nil, err // the Runner has ended, so no other goroutine uses q
	}
	st, answer := q.status, q.answer
	*q = question{}
	questions.Put(q)
	if err != nil {
		return nil, err
	}
	return answer, st.err(ctx, answer)
}

// The method "note" adds a call to the table of calls that wait for their answers.
func (n *Node) note(id uint64, q *question) {
	asked := n.asked[q.peer]
	if asked == nil {
		asked = make(map[uint64]*question)
		n.asked[q.peer] = asked
	}
	asked[id] = q
}

// If the request of a call was not sent, the method "drop" removes the call from the table of
// waiting calls.
func (n *Node) drop(id uint64, q *question) {
	asked := n.asked[q.peer]
	if delete(asked, id); len(asked) == 0 {
		delete(n.asked, q.peer) // the endpoint may have ended
	}
}

// leftMs converts the time until the caller's deadline to milliseconds, rounded up, and adds one
// thousandth. Because of the added thousandth, the caller times out before the handler even if the
// clock of the server runs slightly faster than the clock of the caller.
func leftMs(left time.Duration) uint32 {
	ms := max(left, 0) / time.Millisecond
	return uint32(min(ms+ms/1000+1, math.MaxUint32))
}

// When the caller of a call has stopped waiting, the method "withdraw" removes the call from the
// table of waiting calls. If the argument "cancel" is true, a cancel message is sent to the server.
// The result of the method "withdraw" is false if the Runner has ended, and otherwise true.
//
// The cancel message is sent only after the server has acknowledged the request, because a cancel
// message that arrives before its request has no effect.
func (n *Node) withdraw(id uint64, peer *btl.Endpoint, cancel bool, gone func()) bool {
	err := n.r.Do(context.Background(), func(*btl.Module) error {
		q, waits := n.asked[peer][id]
		delete(n.asked[peer], id)
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

func (n *Node) tellCanceled(peer *btl.Endpoint, id uint64) {
	h := head{id: id, kind: kindCancel}
	if errors.Is(send(peer, n.cfg.Tag, h, nil), btl.ErrAgain) && n.begins() {
		go func() {
			defer n.work.Done()
			var msg [headBytes]byte
			h.put(msg[:])
			_ = n.r.SendBuffered(n.silent, peer, n.cfg.Tag, msg[:]) // The peer may be gone.
		}()
	}
}

// sentRequest is a request that the peer has neither acknowledged nor refused.
type sentRequest struct {
	peer  *btl.Endpoint
	id    uint64
	bytes int    // size of the request
	waits bool   // the request is not acknowledged
	then  func() // called after the acknowledgement, unless nil
	done  func(*btl.Fragment, error)
}

// spareMax is the maximum number of unused sentRequest objects that a Node keeps for reuse.
const spareMax = 1024

// The method "ask" sends a request. If the peer's module refuses the request, the waiting Call
// returns the error of the refusal.
func (n *Node) ask(peer *btl.Endpoint, h head, request []byte) (*sentRequest, error) {
	var s *sentRequest
	if last := len(n.spare) - 1; last >= 0 {
		s, n.spare = n.spare[last], n.spare[:last]
	} else {
		s = new(sentRequest)
		s.done = func(_ *btl.Fragment, err error) {
			if q := n.asked[s.peer][s.id]; q != nil && err != nil {
				if errors.Is(err, btl.ErrUnwanted) {
					err = &tooLargeError{s.bytes, err}
				}
				delete(n.asked[s.peer], s.id)
				q.waker.Wake(err)
			}
			then := s.then
			n.asks.end(s.peer, s.bytes)
			n.keep(s)
			if then != nil && err == nil {
				then()
			}
		}
	}
	s.peer, s.id, s.bytes, s.waits = peer, h.id, len(request), true
	n.asks.begin(peer, s.bytes)
	err := sendSignalled(peer, n.cfg.Tag, h, request, s.done)
	if err != nil {
		n.asks.end(peer, s.bytes)
		n.keep(s)
	}
	if errors.Is(err, btl.ErrTooLarge) {
		err = fmt.Errorf("%w (%s)", err, fragmentLimit)
	}
	return s, err
}

func (n *Node) keep(s *sentRequest) {
	s.peer, s.waits, s.then = nil, false, nil
	if len(n.spare) < spareMax {
		n.spare = append(n.spare, s)
	}
}

// The function "send" sends a message. The calling goroutine must own the module.
func send(peer *btl.Endpoint, tag btl.Tag, h head, body []byte) error {
	return sendSignalled(peer, tag, h, body, nil)
}

// sendSignalled sends a message. If the function "done" is not nil, it is called when the peer has
// acknowledged or refused the message, or the endpoint has ended.
func sendSignalled(peer *btl.Endpoint, tag btl.Tag, h head, body []byte,
	done func(*btl.Fragment, error),
) error {
	_, err := sendFragment(peer, tag, h, body, done != nil, done)
	return err
}

// sendFragment sends a message, and returns the status of btl.Endpoint.Send. If the status is
// btl.Queued, the function "done" will be called when the message is acknowledged or has failed. If
// the argument "signal" is true, sendFragment never returns btl.Done.
func sendFragment(peer *btl.Endpoint, tag btl.Tag, h head, body []byte, signal bool,
	done func(*btl.Fragment, error),
) (btl.Status, error) {
	if peer == nil {
		return 0, btl.ErrEndpoint
	}
	f, err := peer.Alloc(tag, h.bytes()+len(body))
	if err != nil {
		return 0, err
	}
	h.put(f.Bytes())
	copy(f.Bytes()[h.bytes():], body)
	f.Signal, f.OnDone = signal, done
	st, err := peer.Send(peer.Now(), f)
	if err != nil {
		_ = peer.Free(f) // Send has failed, so the fragment is the caller's
	}
	return st, err
}

// The method "err" converts the status of a call's answer to the error that Call returns. The
// argument ctx is the context of the call. The argument "text" comes from the server, and describes
// the handler's error or the exceeded limit.
func (s status) err(ctx context.Context, text []byte) error {
	switch s {
	case statusOK:
		return nil
	case statusMethod:
		return ErrMethod
	case statusBusy:
		return ErrBusy
	case statusLate:
		return endOf(ctx, context.DeadlineExceeded)
	case statusEnded:
		return endOf(ctx, context.Canceled)
	case statusSize:
		return limitError(ErrAnswerSize, text)
	case statusRoom:
		return ErrAnswerRoom
	case statusRequest:
		return limitError(ErrRequestSize, text)
	case statusClosing:
		return ErrClosing
	default:
		return RemoteError(text)
	}
}

// endOf returns the error with which a call fails if the context of its handler has ended. The
// argument "remote" is the error of the handler's context. If the context ctx of the call has not
// ended, endOf returns a RemoteError, so that a server cannot make its caller believe that ctx has
// ended. The deadline of an honest server's handler is later than the deadline of ctx (see leftMs).
func endOf(ctx context.Context, remote error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return RemoteError(remote.Error())
}

// limitError adds the server's text to an error about an exceeded limit, unless the text is empty.
func limitError(err error, text []byte) error {
	if len(text) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, plain.Line(string(text)))
}

// The method "receive" is the message handler of the Node's tag. Malformed messages are dropped.
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

// The method "answered" wakes the Call that waits for the received answer. An answer that does not
// come from the called peer is ignored.
func (n *Node) answered(peer *btl.Endpoint, h head, body []byte) {
	q := n.asked[peer][h.id]
	if q == nil {
		return
	}
	delete(n.asked[peer], h.id)
	q.status = status(h.code)
	switch {
	case q.status != statusOK:
		body = shortened(body)
	case q.ofStream && len(body) > streamAnswerBytes:
		q.waker.Wake(fmt.Errorf("%w: %d bytes for a stream, at most %d", ErrAnswerSize, len(body),
			streamAnswerBytes))
		return
	}
	q.answer = append([]byte(nil), body...)
	q.waker.Wake(nil)
}

// errorBytesMax is the number of bytes that a Node keeps of the text of a server's error.
const errorBytesMax = 4 << 10

// The function "shortened" returns the first characters of a text, of at most errorBytesMax bytes.
func shortened(text []byte) []byte {
	if len(text) <= errorBytesMax {
		return text
	}
	n := errorBytesMax
	for n > errorBytesMax-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// The method "lost" ends the calls to and from an endpoint that has ended. The running time of the
// method "lost" grows with the number of calls to and from the ended endpoint, but not with the
// number of endpoints.
func (n *Node) lost(ep *btl.Endpoint) {
	err := ep.Err()
	if err == nil {
		err = btl.ErrClosed
	}
	asked := n.asked[ep]
	delete(n.asked, ep)
	n.asks.forget(ep)
	for _, q := range asked {
		q.waker.Wake(err)
	}
	n.loseCalls(ep)
	n.streams.endOf(ep) // after the calls, which may open a stream
}

// loseCalls cancels the contexts of the handlers that serve an ended endpoint.
func (n *Node) loseCalls(ep *btl.Endpoint) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	c := n.callers[ep]
	if c == nil || c.gone {
		return
	}
	c.gone = true
	c.host.left.add(c.load)
	for _, cancel := range c.calls {
		cancel()
	}
	n.forget(ep)
}
