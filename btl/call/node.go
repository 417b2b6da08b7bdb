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

// The errors below can be tested with errors.Is.
var (
	// ErrMethod means that the server has no handler for the method's number or name.
	ErrMethod = errors.New("call: no such method")
	// ErrBusy means that the server has reached its limit of running calls, or of answers that
	// the caller has not accepted. The handler has not run.
	ErrBusy = errors.New("call: server is busy")
	// ErrAnswerSize means that the handler has run, but that its answer exceeds the size limit of
	// the caller's messages.
	ErrAnswerSize = errors.New("call: answer is too large")
	// ErrAnswerRoom means that the handler has run, but that the server has dropped its answer,
	// because the caller accepts answers too slowly.
	ErrAnswerRoom = errors.New("call: no room for the answer")
	// ErrRequestSize means that the request is larger than the server accepts. The handler has
	// not run.
	ErrRequestSize = errors.New("call: request is too large for the server")
	// ErrClosing means that the server closed its Node while the handler was running, and that the
	// handler ended for that reason.
	ErrClosing = errors.New("call: server is closing")
	// ErrConfig means that a configuration value is out of its range.
	ErrConfig = errors.New("call: invalid configuration")
)

// RemoteError is the text of an error that a handler has returned.
type RemoteError string

func (e RemoteError) Error() string { return "call: remote: " + string(e) }

// Config configures a Node. All fields of this Config except Tag may be zero, which selects
// their defaults.
type Config struct {
	// Tag is the module's tag for the Node, 0 to btl.TagMax. Both sides must use the same tag.
	Tag btl.Tag
	// Concurrent is the maximum number of calls of one peer whose handlers run on
	// goroutines, 1 to 1<<20. A Concurrent of 0 means 1024. Further calls are answered with
	// ErrBusy. An open stream counts as 16 calls, and its request counts as 1 MiB of
	// RequestBytes. An open stream has 1 MiB for its answer, which does not count as
	// AnswerBytes.
	Concurrent int
	// Total is the maximum number of calls of all peers together whose handlers run on goroutines, 1
	// to 1<<23. A Total of 0 means eight times Concurrent. When Total is reached, a host may have at
	// most as many running calls as are missing to twice Total, and any peer may have one running
	// call. Streams may use seven eighths of Total. Beyond that limit, a peer without a stream may
	// open one if its host may have the calls of a stream.
	Total int
	// RequestBytes is the maximum size of the requests of one peer whose handlers run on
	// goroutines, 1 to 1<<40 bytes in total. A RequestBytes of 0 means 64 MiB. A call that
	// exceeds RequestBytes is answered with ErrBusy. A single request that is larger than
	// RequestBytes is answered with ErrRequestSize. The requests of all peers together may
	// use eight times RequestBytes. Beyond that limit, a host may use at most as many bytes as are
	// missing to twice the limit, and each peer without a running request may send a request of up to
	// 64 KiB.
	RequestBytes int64
	// AnswerBytes is the maximum size of the answers to one peer that wait for send buffers
	// of the transport, 1 to 1<<40 bytes in total. An AnswerBytes of 0 means 64 MiB. When
	// AnswerBytes is reached, further calls are answered with ErrBusy, and an answer is
	// sent without its body (ErrAnswerRoom) if other answers already wait. The answers to
	// all peers together may use eight times AnswerBytes. Beyond that limit, a host may use at most as
	// many bytes as are missing to twice the limit, and each peer without a waiting answer may have an
	// answer of up to 64 KiB.
	AnswerBytes int64
	// MessageBytes is the maximum size of a request or answer that this Node accepts, 1<<18
	// to 1<<31 bytes. A MessageBytes of 0 means the largest of RequestBytes, AnswerBytes
	// and 64 MiB, but at most 1<<31. A message above MessageBytes is refused when its first
	// packet arrives, and uses no memory of this Node. For a message above MessageBytes,
	// the sender's Call returns ErrRequestSize (a request) or ErrAnswerSize (an answer).
	MessageBytes int64
}

// fill sets the defaults, and returns an error for a value that is out of range.
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

// Handler answers a request. Each call of a Handler runs on its own goroutine, and may block. The
// context of a Handler is cancelled at the caller's deadline, when the caller cancels, when the
// caller's endpoint ends, or when the Node closes. The Handler may keep and change request.
type Handler func(ctx context.Context, peer *btl.Endpoint, request []byte) ([]byte, error)

// Inline answers a request without a goroutine of its own. An Inline runs on the goroutine that
// drives the module, and must not block. An Inline appends its answer to the empty slice answer,
// and returns the extended slice. The slice request is valid only during the call.
type Inline func(peer *btl.Endpoint, request, answer []byte) ([]byte, error)

// Node sends calls to peers and serves their calls, over one module.
type Node struct {
	cfg Config
	m   *btl.Module
	r   *runner.Runner

	mu      sync.RWMutex // guards the three tables of methods
	methods map[uint16]Handler
	inline  map[uint16]Inline
	named   map[string]Handler

	// The fields of a Node from lastID to scratch belong to the goroutine that drives the
	// module.
	lastID  uint64
	asked   map[*btl.Endpoint]map[uint64]*question // by the number of the call
	spare   []*sentRequest
	scratch []byte

	runMu   sync.Mutex // guards the next four fields
	load    load       // sum over all callers
	callers map[*btl.Endpoint]*caller
	hosts   map[string]*callerHost     // the hosts of callers
	hostOf  func(*btl.Endpoint) string // Endpoint.PeerHost

	streams   streams
	streamIDs atomic.Uint64

	ended  context.Context
	end    context.CancelFunc
	silent context.Context // ends when no more answers are sent
	hush   context.CancelFunc
	work   sync.WaitGroup
}

// served identifies a running call at the server.
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
	statusError  status = 1 // error of the handler, with its text in the body
	statusMethod status = 2
	statusBusy   status = 3
	statusLate   status = 4 // the handler's error was that of its context, which has ended
	statusEnded  status = 5
	statusSize   status = 6 // the answer is too large to be sent
	statusRoom   status = 7 // the answer was thrown away

	statusRequest status = 8 // the request is larger than the server takes
	statusClosing status = 9 // the Node has closed while the handler was running; with a text
)

// head is the header of a message.
type head struct {
	id     uint64
	leftMs uint32
	code   uint16 // method or status
	kind   kind
	name   string // name of the requested method; empty if it has a number
}

func (h head) put(b []byte) {
	binary.LittleEndian.PutUint64(b, h.id)
	binary.LittleEndian.PutUint32(b[8:], h.leftMs)
	binary.LittleEndian.PutUint16(b[12:], h.code)
	b[14], b[15] = byte(h.kind), byte(len(h.name))
	copy(b[headBytes:], h.name)
}

// bytes is the length of a message's header, including the name of the method.
func (h *head) bytes() int { return headBytes + len(h.name) }

// getHead parses the header of a message. The returned name and body are parts of b.
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

// New makes a Node that uses one tag of a module. After New, the caller registers the methods,
// and calls Start. Before Start, the Node belongs to the goroutine that owns the module. New
// returns btl.ErrTag for an invalid tag, and ErrConfig for an invalid configuration or if the tag
// already has a handler.
func New(m *btl.Module, cfg Config) (*Node, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, m: m,
		methods: map[uint16]Handler{}, inline: map[uint16]Inline{},
		named:   map[string]Handler{},
		asked:   map[*btl.Endpoint]map[uint64]*question{},
		callers: map[*btl.Endpoint]*caller{}, hosts: map[string]*callerHost{},
		hostOf: (*btl.Endpoint).PeerHost,
	}
	n.silent, n.hush = context.WithCancel(context.Background())
	n.ended, n.end = context.WithCancel(context.Background())
	most := uint32(headBytes + nameBytesMax + cfg.MessageBytes)
	if err := m.Hooks().ClaimTag(cfg.Tag, most, n.receive); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return n, nil
}

// Start starts a Runner for the module, with the Node as its only layer, and returns the Runner.
// The caller of Start uses the Runner to connect, and must close the Runner after the Node. The
// function onEvent may be nil. The Runner of a second Start returns runner.ErrTaken from all calls.
func (n *Node) Start(cfg runner.Config, onEvent func(*btl.Endpoint, btl.Event, error),
) *runner.Runner {
	return runner.New(n.m, cfg, onEvent, n.Layer())
}

// Layer returns the Node's layer for runner.New, which is used instead of Start if several
// layers share a module. Before the Runner has started, all methods of a Node that wait
// return runner.ErrNotStarted.
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

// Handle registers the handler of a method, or removes the handler if it is nil. Any goroutine
// may call Handle at any time.
func (n *Node) Handle(method uint16, h Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.inline, method)
	if n.methods[method] = h; h == nil {
		delete(n.methods, method)
	}
}

// HandleName registers the handler of a method that has a name instead of a number, or
// removes the handler if it is nil. Any goroutine may call HandleName at any time. The name
// of a method has 1 to 255 bytes, and is sent with each request. HandleName returns
// ErrMethod if the name is empty or too long.
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

// HandleInline registers the inline handler of a method, or removes the handler if it is nil. Any
// goroutine may call HandleInline at any time.
func (n *Node) HandleInline(method uint16, h Inline) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.methods, method)
	if n.inline[method] = h; h == nil {
		delete(n.inline, method)
	}
}

// Close cancels the contexts of running handlers, and waits until all handlers have returned or
// until ctx is cancelled. After the handlers have returned, Close waits at most a second until
// their answers are sent, and ends the endpoint of each peer that has not accepted its answers.
// Calls that arrive later are answered with ErrBusy. If a handler ignores its context, Close
// returns an error, and the handler's answer is dropped and the endpoint of its peer ends. In a
// Handler or a StreamHandler (InHandler), and in an Inline, Close returns runner.ErrInHandler
// without any effect, because Close would wait for its caller. Close does not close the Runner.
func (n *Node) Close(ctx context.Context) error {
	switch {
	case ctx == nil:
		return btl.ErrContext
	case n.InHandler() || n.r != nil && n.r.InCallback():
		return runner.ErrInHandler
	}
	n.runMu.Lock() // no further call begins
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
		running := 0
		for _, c := range n.callers {
			running += len(c.calls)
		}
		return fmt.Errorf("call: %d handlers have not returned: %w", running, ctx.Err())
	}
}

// answersGrace is the time for which Close waits for peers that accept no answers.
const answersGrace = time.Second
