package call

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"gobtl/btl"
)

// The bodies of a stream are sent in chunks, so that they can be larger than memory. Each chunk is
// sent by an ordinary call of the method, so that deadlines, cancellation, limits and dead peers
// are handled as for calls without a stream.
//
//	client                                   server
//	open ----------------------------------> the handler starts, on a goroutine of its own
//	push 0, 1, 2, streamWindow at once ----> wait for their turns, then for the handler to read
//	       <------- answered when it has
//	pull 0, 1, 2, streamWindow at once ----> wait for their turns, then for the handler to write
//	       <------- the chunk, which may be the last one, or the handler's error
//	end, if it has not come to that -------> the handler's context ends
//
// A slow reader delays the writer, and neither side stores more than streamWindow chunks of one
// direction of a stream. If the answer to a pull (a call that requests a chunk) is larger than a
// chunk may be, the client drops the answer and ends the stream.
//
// The columns of the table below are the offset, the size in bytes, and the meaning of a field in a
// request that belongs to a stream.
//
//	0  1  kind (open 1, push 2, pull 3, end 4)
//	1  1  1 in the last push, or 0
//	2  2  0
//	4  4  number of the push or pull, from 0 on
//	8  8  id of the stream, chosen by the client
//	16    the chunk of a push
//
// The answer to a pull has one byte, which is 1 for the last chunk and 0 for any other chunk,
// followed by the bytes of the chunk. A chunk has at most streamChunk bytes.

// StreamHandler reads a request and writes an answer, both as streams at the same time. Each call
// of a StreamHandler runs on its own goroutine, and the argument ctx is cancelled like the context
// of a Handler. The bytes of each Write to the argument "answer" are sent without waiting for the
// next Write. A Write of the handler blocks while the client does not read, and a Read of the
// handler blocks while the client sends nothing. When the StreamHandler returns, the unread part of
// the request is dropped, and the client receives the written bytes and then the returned error.
type StreamHandler func(ctx context.Context, peer *btl.Endpoint,
	request io.Reader, answer io.Writer) error

const (
	streamHeadBytes = 16
	streamChunk     = 128 << 10
	streamWindow    = 8   // chunks in flight in one direction
	streamsMax      = 256 // streams that one peer may have open
	// streamCalls is the number of concurrent calls for which the server reserves resources when a
	// stream is opened.
	streamCalls = 2 * streamWindow
	streamBytes = streamWindow * streamMsgBytes
	// streamMsgBytes is the size of the largest request of a call that belongs to a stream.
	streamMsgBytes    = streamHeadBytes + streamChunk
	streamAnswerBytes = 1 + streamChunk
	// If a client makes no call of a stream for streamFirstMax after the stream was opened, the server
	// ends the stream. After the first call, the server never ends a stream for lack of calls, because
	// a client makes no calls while it slowly writes received bytes to their destination.
	streamFirstMax = 30 * time.Second
)

type streamOp uint8

const (
	streamOpen streamOp = 1
	streamPush streamOp = 2
	streamPull streamOp = 3
	streamEnd  streamOp = 4
)

// streamHead is the header of a call that belongs to a stream.
type streamHead struct {
	op   streamOp
	last bool
	seq  uint32
	id   uint64
}

func (h streamHead) put(b []byte) []byte {
	b = append(b, byte(h.op), 0, 0, 0)
	if h.last {
		b[len(b)-3] = 1
	}
	b = binary.LittleEndian.AppendUint32(b, h.seq)
	return binary.LittleEndian.AppendUint64(b, h.id)
}

func getStreamHead(b []byte) (h streamHead, ok bool) {
	if len(b) < streamHeadBytes || b[1] > 1 || b[2] != 0 || b[3] != 0 {
		return streamHead{}, false
	}
	return streamHead{
		op: streamOp(b[0]), last: b[1] != 0,
		seq: binary.LittleEndian.Uint32(b[4:]), id: binary.LittleEndian.Uint64(b[8:]),
	}, true
}

var (
	errStreamHead = errors.New("not of a stream")
	errStreamGone = errors.New("no such stream")
	errStreams    = errors.New("no room for the calls of a stream")
)

type streams struct {
	mu   sync.Mutex
	open map[*btl.Endpoint]map[uint64]*stream // by the id of the stream
}

// The type "stream" is the server's state of an open stream.
type stream struct {
	streamRoom
	method   uint16
	ctx      context.Context // of the handler
	end      context.CancelCauseFunc
	pushes   turns
	pulls    turns
	requests chan chunk
	answers  chan chunk
	// unackedSlots contains a value for each large answer that the peer has not acknowledged.
	unackedSlots chan struct{}
	first        *time.Timer // ends the stream if no call of the stream arrives
}

type chunk struct {
	data []byte
	last bool
	err  error
}

// The type "turns" makes the calls of a stream proceed one after the other in the order of their
// numbers, even if the calls do not arrive in this order. Each waiting call has a different number,
// which is less than streamWindow ahead of the number of the call that may proceed. When a call has
// finished, at most one waiting call is woken.
type turns struct {
	mu   sync.Mutex
	next uint32
	// The field "calls" has a channel for each waiting call and for the call that may proceed, at the
	// index of the call's number modulo streamWindow. A channel in the field "calls" gets a value when
	// the call with this channel may proceed.
	calls [streamWindow]chan struct{}
}

// The method "wait" waits until all calls with smaller numbers than seq have finished, and returns
// nil. If the number seq was used before, or if seq is streamWindow or more ahead of the field
// "next", the method "wait" returns errStreamHead.
func (t *turns) wait(ctx context.Context, s *stream, seq uint32) error {
	turn, err := t.enter(seq)
	if err != nil {
		return err
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// The method "enter" makes and returns the channel on which the call with the number seq waits.
func (t *turns) enter(seq uint32) (turn chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := &t.calls[seq%streamWindow]
	if seq-t.next >= streamWindow || *at != nil { // also if seq is smaller than next
		return nil, errStreamHead
	}
	*at = make(chan struct{}, 1)
	if seq == t.next {
		*at <- struct{}{}
	}
	return *at, nil
}

// The method "pass" records that the call with the number "next" has finished, and wakes the call
// with the following number.
func (t *turns) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[t.next%streamWindow] = nil
	t.next++
	if turn := t.calls[t.next%streamWindow]; turn != nil {
		turn <- struct{}{}
	}
}

// HandleStream registers the handler h for calls of a method with CallStream, or removes the
// method's handler if h is nil. HandleStream can be called at any time, and is safe for concurrent
// use.
func (n *Node) HandleStream(method uint16, h StreamHandler) {
	if h == nil {
		n.Handle(method, nil)
		return
	}
	n.Handle(method, func(ctx context.Context, peer *btl.Endpoint, request []byte) ([]byte, error) {
		return n.serveStream(ctx, peer, method, h, request)
	})
}

// serveStream handles one call that belongs to a stream.
func (n *Node) serveStream(ctx context.Context, peer *btl.Endpoint, method uint16,
	h StreamHandler, request []byte,
) ([]byte, error) {
	head, ok := getStreamHead(request)
	if !ok {
		return nil, errStreamHead
	}
	key := served{peer, head.id}
	if head.op == streamOpen {
		return nil, n.openStream(ctx, key, method, h)
	}
	s := n.streams.find(key)
	if s == nil {
		return nil, errStreamGone
	}
	s.first.Stop()
	switch head.op {
	case streamPush:
		return nil, ownEnd(s.ctx, s.push(ctx, head, request[streamHeadBytes:]))
	case streamPull:
		return s.pull(ctx, head)
	case streamEnd:
		s.end(context.Canceled)
		return nil, nil
	case streamOpen:
	}
	return nil, errStreamHead
}

func (t *streams) find(key served) *stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[key.peer][key.id]
}

func (t *streams) add(key served, s *stream) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := t.open[key.peer]
	switch {
	case open[key.id] != nil:
		return errStreamHead
	case len(open) >= streamsMax:
		return errStreams
	case t.open == nil:
		t.open = make(map[*btl.Endpoint]map[uint64]*stream)
	}
	if open == nil {
		open = make(map[uint64]*stream)
		t.open[key.peer] = open
	}
	open[key.id] = s
	return nil
}

// endOf ends all streams of a peer.
func (t *streams) endOf(peer *btl.Endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.open[peer] {
		s.end(context.Canceled)
	}
}

func (t *streams) remove(key served) {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := t.open[key.peer]
	if delete(open, key.id); len(open) == 0 {
		delete(t.open, key.peer)
	}
}

// openStream reserves the calls of a new stream, and starts the stream's handler on a new
// goroutine.
func (n *Node) openStream(ctx context.Context, key served, method uint16, h StreamHandler) error {
	if !n.begins() {
		return context.Canceled
	}
	s := &stream{
		method: method, requests: make(chan chunk), answers: make(chan chunk),
		unackedSlots: make(chan struct{}, streamWindow),
	}
	limited, cancel := n.ended, context.CancelFunc(func() {})
	if at, ok := ctx.Deadline(); ok {
		limited, cancel = context.WithDeadline(n.ended, at)
	}
	s.ctx, s.end = context.WithCancelCause(limited)
	s.first = time.AfterFunc(streamFirstMax, func() { s.end(errStreamGone) })
	err := n.streams.add(key, s)
	if err == nil && !n.reserve(key.peer, s) {
		n.streams.remove(key)
		err = errStreams
	}
	if err == nil && ctx.Err() != nil { // the method "lost" might have run before the stream was added
		s.end(ctx.Err())
	}
	if err != nil {
		s.first.Stop()
		s.end(nil)
		cancel()
		n.work.Done()
		return err
	}
	go func() {
		defer n.work.Done()
		defer cancel()
		err := ownEnd(s.ctx, handleStream(s, h, key.peer))
		_ = s.answer(chunk{last: true, err: err}) // fails if the client has stopped reading
		s.end(nil)
		s.first.Stop()
		n.streams.remove(key)
		n.unreserve(key.peer, s)
	}()
	return nil
}

// The method "begins" must be called before a goroutine of the Node is started, so that Close waits
// for the goroutine's end. The method "begins" reports whether the caller may start the goroutine,
// which is not allowed if the Node is closed.
func (n *Node) begins() bool {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	if n.ended.Err() != nil {
		return false
	}
	n.work.Add(1)
	return true
}

// The method "push" passes a chunk of the request to the handler, and returns when the handler has
// begun to read the chunk. If the client cancels the call before the handler takes the chunk, the
// method "push" ends the stream.
func (s *stream) push(ctx context.Context, h streamHead, data []byte) error {
	err := s.pushes.wait(ctx, s, h.seq)
	if err == nil {
		select {
		case s.requests <- chunk{data: data, last: h.last}:
			s.pushes.pass()
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
	if ctx.Err() != nil {
		s.end(ctx.Err())
	}
	return err
}

// The method "pull" waits for the next chunk that the handler of the stream writes, and returns the
// chunk.
func (s *stream) pull(ctx context.Context, h streamHead) ([]byte, error) {
	err := s.pulls.wait(ctx, s, h.seq)
	if err == nil {
		select {
		case c := <-s.answers:
			if c.err != nil {
				return nil, c.err
			}
			if c.last {
				return []byte{1}, nil
			}
			s.pulls.pass()
			return c.data, nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.ctx.Done():
			err = context.Cause(s.ctx)
		}
	}
	if ctx.Err() != nil {
		s.end(ctx.Err())
	}
	return nil, ownEnd(s.ctx, err)
}

func (s *stream) answer(c chunk) error {
	select {
	case s.answers <- c:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

type streamReader struct {
	s    *stream
	data []byte
	last bool
}

// Read implements io.Reader.
func (r *streamReader) Read(p []byte) (int, error) {
	for len(r.data) == 0 && len(p) > 0 {
		if r.last {
			return 0, io.EOF
		}
		select {
		case c := <-r.s.requests:
			r.data, r.last = c.data, c.last
		case <-r.s.ctx.Done():
			return 0, context.Cause(r.s.ctx)
		}
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

type streamWriter struct{ s *stream }

// Write implements io.Writer.
func (w streamWriter) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		part := p[n:min(n+streamChunk, len(p))]
		data := append(make([]byte, 1, 1+len(part)), part...)
		if err = w.s.answer(chunk{data: data}); err == nil {
			n += len(part)
		}
	}
	return n, err
}
