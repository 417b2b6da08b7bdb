package call

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"gobtl/btl"
)

// CallStream sends all bytes of request to a method of HandleStream, and writes its answer to
// answer, both at the same time: either may be larger than memory, and a slow side delays the
// other. A nil request is empty, a nil answer discards. It returns when the whole answer is
// written: nil, an error of request or answer, or an error as of Call. It returns ErrBusy, before
// request is read, if the server has no room for all calls of the stream at once: by default it has
// for 63 streams of a caller that makes no other calls. If the handler returns early, the rest of
// request is not read; but a pending Read may end later than CallStream.
func (n *Node) CallStream(ctx context.Context, peer *btl.Endpoint, method uint16,
	request io.Reader, answer io.Writer,
) error {
	if ctx == nil {
		return btl.ErrContext
	}
	c := &streamCall{n: n, peer: peer, method: method, id: n.streamIDs.Add(1)}
	open := streamHead{op: streamOpen, id: c.id}
	// An end that arrived before the opening would have no effect.
	if _, err := n.call(ctx, peer, head{code: method}, open.put(nil), c.giveUp); err != nil {
		return err
	}
	var end context.CancelCauseFunc
	c.ctx, end = context.WithCancelCause(ctx)
	// CallStream does not wait for this goroutine, as its Read may take for ever.
	go c.push(request, end)
	err := c.pull(answer)
	end(errStreamOver)
	c.calls.Wait()
	if err != nil {
		c.giveUp()
		// The cause is whichever came first: the end of the answer, of the request, or of ctx. The
		// calls that were ended by it only report that they were.
		if cause := context.Cause(c.ctx); !errors.Is(cause, errStreamOver) {
			return cause
		}
		// The server has dropped the stream at its deadline; the local timer of ctx expires even
		// later.
		if at, ok := ctx.Deadline(); ok && isGone(err) && !time.Now().Before(at) {
			return context.DeadlineExceeded
		}
	}
	return err
}

// isGone says whether the server knows of no such stream, or not any more.
func isGone(err error) bool { return errors.Is(err, RemoteError(errStreamGone.Error())) }

// errStreamOver is the cause with which the calls of a completed stream end.
var errStreamOver = errors.New("the stream is over")

// streamCall is a stream, at its client.
type streamCall struct {
	n      *Node
	ctx    context.Context // of its calls
	peer   *btl.Endpoint
	method uint16
	id     uint64

	mu    sync.Mutex
	over  bool // no call begins any more
	calls sync.WaitGroup
}

// giveUp tells the server that the stream is abandoned, as its calls may all be answered, or still
// on their way. The caller does not wait for that.
func (c *streamCall) giveUp() {
	n := c.n
	if !n.begins() {
		return
	}
	go func() {
		defer n.work.Done()
		ctx, cancel := context.WithTimeout(n.silent, streamIdleMax)
		defer cancel()
		_, _ = n.Call(ctx, c.peer, c.method, streamHead{op: streamEnd, id: c.id}.put(nil))
	}()
}

// push sends the request. When the handler reads no more, its answer says why.
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
			_, err := c.n.Call(c.ctx, c.peer, c.method, msg)
			// A completed stream accepts no more, and its answer says why.
			if err != nil && !errors.Is(err, context.Canceled) && !isGone(err) {
				end(err)
			}
		}) || last {
			return
		}
	}
}

// readChunk reads until one Read returns bytes or an error.
func readChunk(from io.Reader, p []byte) (n int, err error) {
	const triesMax = 100
	for range triesMax {
		if n, err = from.Read(p); n > 0 || err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				err = nil // which comes again
			}
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// begin runs a call on a goroutine of its own, unless the stream is over.
func (c *streamCall) begin(call func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.calls.Go(call)
	return true
}

// pull writes the answer: a window of chunks is asked for ahead.
func (c *streamCall) pull(answer io.Writer) error {
	defer c.stop()
	var window [streamWindow]chan pulled
	ask := func(seq uint32) {
		to := make(chan pulled, 1)
		window[seq%streamWindow] = to
		c.begin(func() {
			data, err := c.n.Call(c.ctx, c.peer, c.method,
				streamHead{op: streamPull, seq: seq, id: c.id}.put(nil))
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

// stop prevents new calls of the stream.
func (c *streamCall) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// pulled is the answer of a pull.
type pulled struct {
	data []byte
	err  error
}
