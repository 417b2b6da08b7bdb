package call

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
)

// Errors of the package; test for them with errors.Is.
var (
	// ErrMethod: the server has no handler of that number.
	ErrMethod = errors.New("call: no such method")
	// ErrBusy: the server is at its bound of calls under way, or of answers that the caller has not
	// accepted. No handler has run.
	ErrBusy = errors.New("call: server is busy")
	// ErrAnswerSize: the handler has run, but its answer exceeds the size limit of a message to the
	// caller.
	ErrAnswerSize = errors.New("call: answer is too large")
	// ErrAnswerRoom: the handler has run, but the server has discarded its answer: the caller
	// accepts answers too slowly.
	ErrAnswerRoom = errors.New("call: no room for the answer")
	// ErrRequestSize: the request is larger than the server accepts. No handler has run.
	ErrRequestSize = errors.New("call: request is too large for the server")
	// ErrClosing: the server closed its Node while the handler ran, and the handler ended because
	// of that.
	ErrClosing = errors.New("call: server is closing")
	// ErrConfig: a configuration value is out of its range.
	ErrConfig = errors.New("call: invalid configuration")
)

// RemoteError is the text of an error that a handler has returned.
type RemoteError string

func (e RemoteError) Error() string { return "call: remote: " + string(e) }

// Config tunes a Node; the zero value is a good default but for the tag.
type Config struct {
	// Tag is the module's tag that the Node uses, 0 to btl.TagMax, the same at both sides.
	Tag btl.Tag
	// Concurrent bounds the calls of one peer under way whose handlers have goroutines, 1 to 1<<20; 0
	// means 1024. Beyond it a call is answered with ErrBusy. An open stream counts as 16, and its
	// chunks under way as 1 MiB of RequestBytes; it has as much for answers, beside AnswerBytes.
	Concurrent int
	// Total bounds such calls of all peers together, 1 to 1<<23; 0 means eight times Concurrent.
	// Beyond it only peers with no call under way are served, one call at a time. Streams may use
	// seven eighths of it; beyond that a peer without a stream may open one, up to twice Total.
	Total int
	// RequestBytes bounds the requests of one peer whose handlers run on goroutines, in bytes, 1 to
	// 1<<40; 0 means 64 MiB. A call beyond it is answered with ErrBusy, a single request larger
	// than it with ErrRequestSize. All peers together have eight times as much; beyond that a peer
	// with no request under way may send one of 64 KiB.
	RequestBytes int64
	// AnswerBytes bounds the answers to one peer that wait for room in the transport, in bytes, 1
	// to 1<<40; 0 means 64 MiB. Beyond it further calls are answered with ErrBusy, and an answer,
	// unless it is the only one, is sent without its body: ErrAnswerRoom. All peers together have
	// eight times as much; beyond that a peer without a waiting answer may have one of 64 KiB.
	AnswerBytes int64
	// MessageBytes bounds one request or answer that a peer sends to this Node, in bytes, 1<<18 to
	// 1<<31; 0 means the largest of RequestBytes, AnswerBytes and 64 MiB, up to 1<<31. A longer
	// message is refused at its first packet and takes no memory here: a request's Call ends with
	// ErrRequestSize, an answer's with ErrAnswerSize.
	MessageBytes int64
}

// fill sets the defaults, and returns an error for a value out of its range.
func (c *Config) fill() error {
	if c.Concurrent == 0 {
		c.Concurrent = defaultConcurrent
	}
	if c.Total == 0 {
		c.Total = totalFactor * min(c.Concurrent, concurrentMax)
	}
	if c.RequestBytes == 0 {
		c.RequestBytes = defaultBytes
	}
	if c.AnswerBytes == 0 {
		c.AnswerBytes = defaultBytes
	}
	if c.MessageBytes == 0 {
		c.MessageBytes = min(max(c.RequestBytes, c.AnswerBytes, defaultBytes), messageBytesMost)
	}
	for _, f := range []struct {
		name            string
		value, min, max int64
	}{
		{"Concurrent", int64(c.Concurrent), 1, concurrentMax},
		{"Total", int64(c.Total), 1, totalFactor * concurrentMax},
		{"RequestBytes", c.RequestBytes, 1, bytesMax},
		{"AnswerBytes", c.AnswerBytes, 1, bytesMax},
		{"MessageBytes", c.MessageBytes, messageBytesLeast, messageBytesMost},
	} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrConfig, f.name, f.value, f.min, f.max)
		}
	}
	return nil
}

// Handler answers a request. It runs on a goroutine of its own, and may block; ctx ends with the
// caller's deadline, when the caller cancels, when its endpoint ends, and with the Node. The
// handler owns request; the answer is sent when the handler returns.
type Handler func(ctx context.Context, peer *btl.Endpoint, request []byte) ([]byte, error)

// Inline answers a request at once: it runs on the goroutine that drives the module, and must not
// block. It appends the answer to answer, which is empty, and returns that; request is valid only
// during the call.
type Inline func(peer *btl.Endpoint, request, answer []byte) ([]byte, error)

// Node calls and is called, over one module.
type Node struct {
	cfg Config
	m   *btl.Module
	r   *runner.Runner

	mu      sync.RWMutex // of the tables of methods
	methods map[uint16]Handler
	inline  map[uint16]Inline
	named   map[string]Handler

	// Fields of the goroutine that drives the module.
	lastID  uint64
	asked   map[uint64]*question
	spare   []*sentRequest
	scratch []byte

	runMu        sync.Mutex // of the next six
	running      map[served]context.CancelFunc
	total        int // of them, and those that are kept for streams
	callers      map[*btl.Endpoint]*caller
	requestBytes int64 // the callers' together, as the next two
	answerBytes  int64
	sending      int

	streams   streams
	streamIDs atomic.Uint64

	ended  context.Context
	end    context.CancelFunc
	silent context.Context // ends when no answer is sent any more
	hush   context.CancelFunc
	work   sync.WaitGroup
}

// served identifies a call under way at its server.
type served struct {
	peer *btl.Endpoint
	id   uint64
}

// question is a call that waits for its answer.
type question struct {
	peer   *btl.Endpoint
	sent   *sentRequest // may be another call's by now
	waker  runner.Waker
	answer []byte
	status status
}

const (
	headBytes         = 16
	nameBytesMax      = 255
	defaultConcurrent = 1024
	concurrentMax     = 1 << 20
	totalFactor       = 8
	defaultBytes      = 64 << 20
	bytesMax          = 1 << 40
	messageBytesLeast = 2 * streamChunk
	messageBytesMost  = 1 << 31
)

type kind uint8

const (
	kindRequest kind = 1
	kindAnswer  kind = 2
	kindCancel  kind = 3
)

type status uint16

const (
	statusOK     status = 0
	statusError  status = 1 // of the handler: the body is its text
	statusMethod status = 2
	statusBusy   status = 3
	statusLate   status = 4 // the handler's error was that of its context, which has ended
	statusEnded  status = 5
	statusSize   status = 6 // the answer is too large to be sent
	statusRoom   status = 7 // the answer was thrown away

	statusRequest status = 8 // the request is larger than the server takes
	statusClosing status = 9 // the handler's context has ended because its Node closes; with a text
)

// head is the beginning of a message.
type head struct {
	id     uint64
	leftMs uint32
	code   uint16 // method or status
	kind   kind
	name   string // of the method that is asked for, unless that has a number
}

func (h head) put(b []byte) {
	binary.LittleEndian.PutUint64(b, h.id)
	binary.LittleEndian.PutUint32(b[8:], h.leftMs)
	binary.LittleEndian.PutUint16(b[12:], h.code)
	b[14], b[15] = byte(h.kind), byte(len(h.name))
	copy(b[headBytes:], h.name)
}

// bytes is how long the head of a message is, with the name.
func (h *head) bytes() int { return headBytes + len(h.name) }

// getHead reads the head of a message. name and body are parts of b.
func getHead(b []byte) (h head, name, body []byte, ok bool) {
	if len(b) < headBytes {
		return head{}, nil, nil, false
	}
	h = head{
		id: binary.LittleEndian.Uint64(b), leftMs: binary.LittleEndian.Uint32(b[8:]),
		code: binary.LittleEndian.Uint16(b[12:]), kind: kind(b[14]),
	}
	nameBytes, rest := int(b[15]), b[headBytes:]
	if h.kind < kindRequest || h.kind > kindCancel || nameBytes > len(rest) ||
		nameBytes > 0 && (h.kind != kindRequest || h.code != 0) {
		return head{}, nil, nil, false
	}
	return h, rest[:nameBytes], rest[nameBytes:], true
}

// New takes a tag of a module for calls. Register the methods, then Start it. Until Start the Node
// belongs to the goroutine that owns the module.
func New(m *btl.Module, cfg Config) (*Node, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, m: m,
		methods: map[uint16]Handler{}, inline: map[uint16]Inline{},
		named: map[string]Handler{},
		asked: map[uint64]*question{}, running: map[served]context.CancelFunc{},
		callers: map[*btl.Endpoint]*caller{},
	}
	n.silent, n.hush = context.WithCancel(context.Background())
	n.ended, n.end = context.WithCancel(context.Background())
	return n, m.HandleUpTo(cfg.Tag, uint32(headBytes+nameBytesMax+cfg.MessageBytes), n.receive)
}

// Start starts a Runner for the module with the Node as its only layer, and returns it. The caller
// owns the Runner: it connects by it, and closes it after the Node. onEvent may be nil.
func (n *Node) Start(cfg runner.Config, onEvent func(*btl.Endpoint, btl.Event, error),
) *runner.Runner {
	return runner.New(n.m, cfg, onEvent, n.Layer())
}

// Layer returns the Layer for runner.New, in place of Start, where several layers share a module.
// Until the Runner starts all waiting methods return runner.ErrNotStarted.
func (n *Node) Layer() runner.Layer {
	return runner.Layer{
		Attach: func(r *runner.Runner) { n.r = r },
		Event: func(ep *btl.Endpoint, ev btl.Event, _ error) {
			if ev != btl.EventConnected {
				n.lost(ep)
			}
		},
	}
}

// Handle registers the handler of a method; nil removes it. It may be called at any time.
func (n *Node) Handle(method uint16, h Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.inline, method)
	if n.methods[method] = h; h == nil {
		delete(n.methods, method)
	}
}

// HandleName registers the handler of a method that has a name, 1 to 255 bytes long, instead of a
// number; nil removes it. It may be called at any time. The name is sent with each request.
// ErrMethod: the name is empty or too long.
func (n *Node) HandleName(name string, h Handler) error {
	if len(name) < 1 || len(name) > nameBytesMax {
		return fmt.Errorf("%w: its name has %d bytes, want 1 to %d", ErrMethod, len(name), nameBytesMax)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.named[name] = h; h == nil {
		delete(n.named, name)
	}
	return nil
}

// HandleInline registers the inline handler of a method. It may be called at any time.
func (n *Node) HandleInline(method uint16, h Inline) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.methods, method)
	if n.inline[method] = h; h == nil {
		delete(n.inline, method)
	}
}

// Close ends the contexts of running handlers, and waits for them until ctx ends, and then for
// their answers to leave, a second at most: the endpoint of a peer that accepts none by then is
// ended. Later calls, also of inline methods, are answered with ErrBusy. A handler that ignores its
// context may outlive Close, which then returns an error: the handler's answer is discarded, and
// the endpoint of its peer ends. The Runner is not closed.
func (n *Node) Close(ctx context.Context) error {
	if ctx == nil {
		return btl.ErrContext
	}
	n.runMu.Lock() // nobody enters any more
	n.end()
	n.runMu.Unlock()
	last := time.AfterFunc(answersGrace, n.hush)
	defer last.Stop()
	defer n.hush()
	over := make(chan struct{})
	go func() {
		n.work.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		n.runMu.Lock()
		defer n.runMu.Unlock()
		return fmt.Errorf("call: %d handlers have not returned: %w", len(n.running), ctx.Err())
	}
}

// answersGrace is how long Close waits for peers that accept no answers.
const answersGrace = time.Second
