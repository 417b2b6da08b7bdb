package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
)

// The method "serve" runs the handler of a request. A handler of the type Inline runs on the
// calling goroutine, and a Handler or StreamHandler runs on a new goroutine.
func (n *Node) serve(peer *btl.Endpoint, h head, name, body []byte) {
	inline, handler := n.handlerOf(h.code, name)
	switch {
	case n.ended.Err() != nil:
		n.reply(peer, head{id: h.id, kind: kindAnswer, code: uint16(statusBusy)}, nil)
	case inline != nil:
		answer, err := inline(peer, body, n.scratch[:0])
		n.answer(peer, h.id, answer, err)
		n.keepRoom(cap(answer))
	case handler == nil:
		n.reply(peer, head{id: h.id, kind: kindAnswer, code: uint16(statusMethod)}, nil)
	default:
		lent := place{}
		if len(name) == 0 {
			lent = n.lends(peer, h.code, body)
		}
		n.begin(peer, h, handler, body, lent)
	}
}

func (n *Node) handlerOf(number uint16, name []byte) (Inline, Handler) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if len(name) > 0 {
		return nil, n.named[string(name)]
	}
	return n.inline[number], n.methods[number]
}

// scratchBytesMax is the maximum size of the buffer that a Node reuses for inline answers.
const scratchBytesMax = 2 << 20

// keepRoom allocates a larger buffer for the next inline answer if the latest answer did not fit
// into the present buffer.
func (n *Node) keepRoom(sizeBytes int) {
	if sizeBytes > cap(n.scratch) && sizeBytes <= scratchBytesMax {
		n.scratch = make([]byte, 0, sizeBytes)
	}
}

// The method "begin" runs a handler on a new goroutine. If the call belongs to a stream, the
// argument "lent" of the method "begin" is the place that the server has reserved for the call when
// the stream was opened.
func (n *Node) begin(peer *btl.Endpoint, h head, handler Handler, body []byte, lent place) {
	ctx, cancel := n.ended, context.CancelFunc(nil)
	if h.leftMs > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(h.leftMs)*time.Millisecond)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	s := served{peer, h.id}
	st, kept := n.enter(s, cancel, int64(len(body)), lent)
	if st != statusOK {
		cancel()
		var why []byte
		if st == statusRequest {
			why = fmt.Appendf(nil, "%d bytes, at most %d, call.Config.RequestBytes of the server "+
				"(gobtl: Calls.RequestBytes)", len(body), n.cfg.RequestBytes)
		}
		n.reply(peer, head{id: h.id, kind: kindAnswer, code: uint16(st)}, why)
		return
	}
	request := append([]byte(nil), body...)
	go func() {
		defer n.work.Done()
		answer, err := handle(ctx, handler, peer, request)
		st := n.statusOf(ownEnd(ctx, err))
		cancel()
		if st == statusError || st == statusClosing {
			answer = []byte(err.Error())
		}
		of, room := n.leave(s, kept, int64(len(request)), int64(len(answer)))
		if !room {
			st, answer = statusRoom, nil
		}
		of.slot = n.takeSlot(kept, len(answer))
		n.send(peer, head{id: h.id, kind: kindAnswer, code: uint16(st)}, answer, kept.stream != nil, of)
	}()
	n.r.Yield()
}

// endError marks a handler's error that only reports the cancellation of the handler's own context.
type endError struct{ error }

func (e endError) Unwrap() error { return e.error }

// ownEnd wraps err in an endError if err only reports that the handler's context ctx was cancelled.
// An error from the cancellation of a context other than ctx, such as that of a database query, is
// not wrapped.
func ownEnd(ctx context.Context, err error) error {
	isEnd := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if isEnd && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return endError{err}
	}
	return err
}

func (n *Node) statusOf(err error) status {
	var end endError
	switch {
	case err == nil:
		return statusOK
	case errors.Is(err, errStreams):
		return statusBusy
	case !errors.As(err, &end):
		return statusError
	case n.ended.Err() != nil:
		return statusClosing
	case errors.Is(err, context.DeadlineExceeded):
		return statusLate
	}
	return statusEnded
}

// The method "enter" counts a call that begins and returns statusOK, or refuses the call and
// returns the status with the reason. The method "enter" refuses a call if the peer has reached a
// limit, if a call with the same number is running, or if the Node is closing.
func (n *Node) enter(
	s served, cancel context.CancelFunc, bytes int64, of place,
) (st status, kept place) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	if n.ended.Err() != nil {
		return statusBusy, place{}
	}
	c := n.caller(s.peer)
	if _, twice := c.calls[s.id]; twice {
		return statusBusy, place{}
	}
	c.renew()
	switch {
	case of.take():
		kept = of
	case bytes > n.cfg.RequestBytes:
		return statusRequest, place{}
	case !n.mayEnter(c, bytes):
		return statusBusy, place{}
	default:
		n.add(c, load{running: 1, requestBytes: bytes})
	}
	c.calls[s.id] = cancel
	c.most = max(c.most, len(c.calls))
	n.work.Add(1)
	return statusOK, kept
}

// The method "renew" gives a peer without running calls its allowance of one call, and a peer
// without running requests its allowance of one small request. The peer gets no allowance while
// handlers of ended endpoints of the same host are running, because otherwise a host could begin
// one more call after each new connection. The calling function holds runMu.
func (c *caller) renew() {
	if c.running == 0 {
		c.freeCalls = 0
		if c.host.left.running == 0 {
			c.freeCalls = 1
		}
	}
	if c.requestBytes == 0 {
		c.freeRequestBytes = 0
		if c.host.left.requestBytes == 0 {
			c.freeRequestBytes = smallBytes
		}
	}
}

// mayEnter reports whether the limits allow a peer to begin one more call. The calling function
// holds runMu.
func (n *Node) mayEnter(c *caller, bytes int64) bool {
	all, host := &n.counted, &c.host.counted
	more := c.more(load{running: 1, requestBytes: bytes, sending: 1})
	return c.running < n.cfg.Concurrent && c.sending+c.streamed.sending < sendingMax &&
		c.against() < n.cfg.AnswerBytes &&
		c.requestBytes+bytes <= n.cfg.RequestBytes &&
		mayShare(all.requestBytes, host.requestBytes, more.requestBytes,
			totalFactor*n.cfg.RequestBytes) &&
		mayShare(all.inTotal(), host.inTotal(), more.running, n.cfg.Total) &&
		mayShare(all.sending, host.sending, more.sending, totalFactor*sendingMax)
}

// The method "leave" records that the handler of a call has returned. The result "of" of the method
// "leave" describes how the answer counts towards the limits on answers, and the result "room"
// reports whether the limits on answers allow the server to send the answer. If the call belongs to
// a stream, the result "room" is true for an answer of at most one chunk.
func (n *Node) leave(s served, kept place, requestBytes, answerBytes int64,
) (of account, room bool) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	c := n.callers[s.peer]
	delete(c.calls, s.id)
	if kept.stream == nil {
		n.add(c, load{running: -1, requestBytes: -requestBytes})
		room = n.mayAnswer(c, answerBytes)
	} else {
		room = answerBytes <= streamAnswerBytes
	}
	if !room {
		answerBytes = 0
	}
	of = account{c: c, kept: kept, sending: 1, bytes: answerBytes}
	n.count(&of, load{sending: 1, answerBytes: answerBytes})
	return of, room
}

func (n *Node) cancel(s served) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	if c := n.callers[s.peer]; c != nil && c.calls[s.id] != nil {
		c.calls[s.id]()
	}
}

// The method "answer" sends the answer or the error of an inline handler to the peer.
func (n *Node) answer(peer *btl.Endpoint, id uint64, answer []byte, err error) {
	h := head{id: id, kind: kindAnswer, code: uint16(n.statusOf(err))}
	if h.code == uint16(statusError) {
		answer = []byte(err.Error())
	}
	n.reply(peer, h, answer)
}
