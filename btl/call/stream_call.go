package call

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"gobtl/btl"
)

// CallStream sends all bytes that it reads from the argument "request" to a method registered with
// HandleStream, and at the same time writes the method's answer to the argument "answer". Request
// and answer can be larger than memory, because a slow reader delays the writer. A nil "request"
// means an empty request, and a nil "answer" means that the bytes of the answer are dropped.
// CallStream returns nil when the whole answer is written. If CallStream fails, it returns the
// first error of a Read from the argument "request", of a Write to the argument "answer", or of a
// Call. If the server violates the protocol by a chunk of more than 128 KiB, CallStream drops the
// chunk, and returns ErrAnswerSize.
//
// If the server cannot reserve all calls of the stream, CallStream returns ErrBusy before it reads
// from the argument "request". With the server's default limits, a caller that makes no calls
// outside of streams can have 63 open streams. If the handler returns before it has read the whole
// request, CallStream stops reading from the argument "request". A Read from the argument "request"
// might still be in progress when CallStream returns.
func (n *Node) CallStream(ctx context.Context, peer *btl.Endpoint, method uint16,
	request io.Reader, answer io.Writer,
) error {
	if ctx == nil {
		return btl.ErrContext
	}
	c := &streamCall{n: n, peer: peer, method: method, id: n.streamIDs.Add(1)}
	open := streamHead{op: streamOpen, id: c.id}
	options := callOptions{ofStream: true, gone: c.giveUp}
	if _, err := n.call(ctx, peer, head{code: method}, open.put(nil), options); err != nil {
		return err
	}
	var end context.CancelCauseFunc
	c.ctx, end = context.WithCancelCause(ctx)
	go c.push(request, end)
	err := c.pull(answer)
	end(errStreamOver)
	c.calls.Wait()
	if err != nil {
		c.giveUp()
		// The cause of c.ctx tells whether the end of the answer, a failure to send the request, or the
		// cancellation of ctx came first.
		if cause := context.Cause(c.ctx); !errors.Is(cause, errStreamOver) {
			return cause
		}
		if at, ok := ctx.Deadline(); ok && isGone(err) && !time.Now().Before(at) {
			return context.DeadlineExceeded
		}
	}
	return err
}

// isGone reports whether an error of the server means that the server does not know the stream, or
// has ended the stream.
func isGone(err error) bool {
	return errors.Is(err, RemoteError(errStreamGone.Error())) ||
		errors.Is(err, RemoteError(context.Canceled.Error())) ||
		errors.Is(err, RemoteError(context.DeadlineExceeded.Error()))
}

// errStreamOver is the context.Cause when the client cancels the remaining calls of a completed
// stream.
var errStreamOver = errors.New("the stream is over")

// streamCall is the client's state of an open stream.
type streamCall struct {
	n      *Node
	ctx    context.Context // of its calls
	peer   *btl.Endpoint
	method uint16
	id     uint64

	mu    sync.Mutex
	over  bool // no further call begins
	calls sync.WaitGroup
}

// giveUp starts a goroutine that tells the server that the client has abandoned the stream, and
// does not wait for this goroutine. The goroutine waits until the transport accepts the message or
// the endpoint has ended, and ignores the server's answer. The goroutine waits without a time
// limit, because the server keeps the stream until the message has arrived or the endpoint has
// ended. If the client's Node is closed, the server may keep the stream until the endpoint ends.
func (c *streamCall) giveUp() {
	n := c.n
	if !n.begins() {
		return
	}
	go func() {
		defer n.work.Done()
		h := head{code: c.method, kind: kindRequest}
		last := streamHead{op: streamEnd, id: c.id}.put(nil)
		_ = n.r.DoFor(n.silent, c.peer, func(*btl.Module) error { // The peer may be gone.
			if h.id == 0 { // otherwise the function runs again after ErrAgain
				n.lastID++
				h.id = n.lastID
			}
			return send(c.peer, n.cfg.Tag, h, last)
		})
	}()
}

// The method "push" sends the request in chunks. If the handler has stopped reading the request,
// the method "push" reports no error, because the answer of the stream contains the reason.
func (c *streamCall) push(request io.Reader, end context.CancelCauseFunc) {
	free := make(chan struct{}, streamWindow)
	for seq, last := uint32(0), request == nil; c.ctx.Err() == nil; seq++ {
		msg := streamHead{op: streamPush, seq: seq, id: c.id}.put(
			make([]byte, 0, streamHeadBytes+streamChunk))
		if !last {
			got, err := readChunk(request, msg[streamHeadBytes:cap(msg)])
			msg = msg[:streamHeadBytes+got]
			if last = errors.Is(err, io.EOF); err != nil && !last {
				end(err)
				return
			}
		}
		if last {
			msg[1] = 1
		}
		select {
		case free <- struct{}{}:
		case <-c.ctx.Done():
			return
		}
		if !c.begin(func() {
			defer func() { <-free }()
			_, err := c.call(msg)
			if err != nil && !errors.Is(err, context.Canceled) && !isGone(err) {
				end(err)
			}
		}) || last {
			return
		}
	}
}

func readChunk(from io.Reader, p []byte) (n int, err error) {
	const triesMax = 100
	for range triesMax {
		if n, err = from.Read(p); n > 0 || err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				err = nil // the next Read returns io.EOF again
			}
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// The method "call" makes a call of the open stream.
func (c *streamCall) call(request []byte) ([]byte, error) {
	return c.n.call(c.ctx, c.peer, head{code: c.method}, request, callOptions{ofStream: true})
}

// The method "begin" runs a call of the stream on a new goroutine and returns true, or returns
// false if the stream has ended.
func (c *streamCall) begin(call func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.calls.Go(call)
	return true
}

// The method "pull" receives the chunks of the answer, with streamWindow calls in progress at the
// same time, and writes the chunks in order.
func (c *streamCall) pull(answer io.Writer) error {
	defer c.stop()
	var window [streamWindow]chan pulled
	ask := func(seq uint32) {
		to := make(chan pulled, 1)
		window[seq%streamWindow] = to
		c.begin(func() {
			data, err := c.call(streamHead{op: streamPull, seq: seq, id: c.id}.put(nil))
			to <- pulled{data, err}
		})
	}
	for seq := range uint32(streamWindow) {
		ask(seq)
	}
	for seq := uint32(0); ; seq++ {
		got := <-window[seq%streamWindow]
		switch {
		case got.err != nil:
			return got.err
		case len(got.data) == 0:
			return RemoteError(errStreamHead.Error())
		case got.data[0] != 0:
			return nil
		}
		if answer != nil {
			if _, err := answer.Write(got.data[1:]); err != nil {
				return err
			}
		}
		ask(seq + streamWindow)
	}
}

// The method "stop" prevents new calls of the stream.
func (c *streamCall) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// The type "pulled" is the result of a call that requests a chunk of the answer.
type pulled struct {
	data []byte
	err  error
}
