package call

import (
	"context"
	"errors"
	"time"

	"gobtl/btl"
)

// serve answers a request, or has it answered.
func (n *Node) serve(peer *btl.Endpoint, h head, body []byte) {
	n.mu.RLock()
	inline, handler := n.inline[h.code], n.methods[h.code]
	n.mu.RUnlock()
	switch {
	case inline != nil:
		answer, err := inline(peer, body, n.scratch[:0])
		if cap(answer) <= scratchBytesMax {
			n.scratch = answer[:0]
		}
		n.answer(peer, h.id, answer, err)
	case handler == nil:
		n.reply(peer, head{id: h.id, kind: kindAnswer, code: uint16(statusMethod)}, nil)
	default:
		n.begin(peer, h, handler, body)
	}
}

// scratchBytesMax is the most memory that is kept for the next inline answer.
const scratchBytesMax = 64 << 10

// begin has a handler run on a goroutine of its own.
func (n *Node) begin(peer *btl.Endpoint, h head, handler Handler, body []byte) {
	ctx, cancel := n.ended, context.CancelFunc(nil)
	if h.leftMs > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(h.leftMs)*time.Millisecond)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	s := served{peer, h.id}
	if !n.enter(s, cancel) {
		cancel()
		n.reply(peer, head{id: h.id, kind: kindAnswer, code: uint16(statusBusy)}, nil)
		return
	}
	request := append([]byte(nil), body...)
	go func() {
		defer n.work.Done()
		answer, err := handler(ctx, peer, request)
		n.leave(s)
		cancel()
		st := statusOf(err)
		if st == statusError {
			answer = []byte(err.Error())
		}
		n.send(peer, head{id: h.id, kind: kindAnswer, code: uint16(st)}, answer)
	}()
	n.r.Yield()
}

// statusOf is how a handler's error is told.
func statusOf(err error) status {
	switch {
	case err == nil:
		return statusOK
	case errors.Is(err, context.DeadlineExceeded):
		return statusLate
	case errors.Is(err, context.Canceled):
		return statusEnded
	default:
		return statusError
	}
}

// enter counts a call under way, unless there are too many, or it is under way already, or the Node
// ends.
func (n *Node) enter(s served, cancel context.CancelFunc) bool {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	if _, twice := n.running[s]; twice || len(n.running) >= n.cfg.Concurrent || n.ended.Err() != nil {
		return false
	}
	n.running[s] = cancel
	n.work.Add(1)
	return true
}

func (n *Node) leave(s served) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	delete(n.running, s)
}

func (n *Node) cancel(s served) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	if cancel := n.running[s]; cancel != nil {
		cancel()
	}
}

// send sends an answer from a goroutine of ours, and waits for room as long as the Node lives.
func (n *Node) send(peer *btl.Endpoint, h head, body []byte) {
	msg := make([]byte, headBytes, headBytes+len(body))
	h.put(msg)
	// A peer that is gone needs no answer.
	_ = n.r.SendBuffered(n.ended, peer, n.cfg.Tag, append(msg, body...))
}

// answer sends what an inline handler has returned.
func (n *Node) answer(peer *btl.Endpoint, id uint64, answer []byte, err error) {
	h := head{id: id, kind: kindAnswer, code: uint16(statusOf(err))}
	if h.code == uint16(statusError) {
		answer = []byte(err.Error())
	}
	n.reply(peer, h, answer)
}

// reply sends an answer from the goroutine that drives. If there is no room now, one of ours waits.
func (n *Node) reply(peer *btl.Endpoint, h head, body []byte) {
	if err := send(peer, n.cfg.Tag, h, body); !errors.Is(err, btl.ErrAgain) {
		return
	}
	s := served{peer, h.id}
	if !n.enter(s, func() {}) {
		return // the caller's deadline tells it
	}
	body = append([]byte(nil), body...)
	go func() {
		defer n.work.Done()
		n.send(peer, h, body)
		n.leave(s)
	}()
}
