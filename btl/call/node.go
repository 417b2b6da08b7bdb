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
	"gobtl/internal/plain"
)

// The errors below can be tested with errors.Is.
var (
	// ErrMethod means that the server has no handler for the method's number or name.
	ErrMethod = errors.New("call: no such method")
	// ErrBusy means that the handler has not run, because the server has reached its limit on running
	// calls, or its limit on answers that the caller has not acknowledged.
	ErrBusy = errors.New("call: server is busy")
	// ErrAnswerSize means that the handler has run, but that its answer exceeds the size limit of
	// the caller's messages, or the size of a stream's chunk.
	ErrAnswerSize = errors.New("call: answer is too large")
	// ErrAnswerRoom means that the handler has run, but that the server has dropped the answer,
	// because the caller acknowledges answers too slowly.
	ErrAnswerRoom = errors.New("call: no room for the answer")
	// ErrRequestSize means that the request is larger than the server accepts. The handler has
	// not run.
	ErrRequestSize = errors.New("call: request is too large for the server")
	// ErrClosing means that the server has closed its Node during the call, and that the handler has
	// therefore returned the error of its cancelled context.
	ErrClosing = errors.New("call: server is closing")
	// ErrConfig means that a configuration value is out of its range.
	ErrConfig = errors.New("call: invalid configuration")
)

// RemoteError is the text of an error that the handler at the server has returned. If the text has
// more than 4 KiB, RemoteError is the beginning of the text.
type RemoteError string

// Error returns the text as one short line without unprintable characters, because a hostile server
// can choose the text. The conversion to a string returns the text that the server has sent.
func (e RemoteError) Error() string { return "call: remote: " + plain.Line(string(e)) }

// Config configures a Node. A field of this Config that is zero has its default value, except for
// Tag, whose value 0 means the tag 0.
type Config struct {
	// Tag is the module's tag for the Node, 0 to btl.TagMax. Both sides must use the same tag.
	Tag btl.Tag
	// Concurrent is the maximum number of calls of one peer whose handlers run on goroutines, 1 to
	// 1<<20. A Concurrent of 0 means 1024. While Concurrent calls of a peer are running, each further
	// call of this peer fails with ErrBusy. An open stream counts as 16 calls, and its request counts
	// as 1 MiB of RequestBytes. The answer of an open stream can use 2 MiB of memory, which do not
	// count towards AnswerBytes. After the end of the stream, its unacknowledged answers count towards
	// AnswerBytes.
	Concurrent int
	// Total is the maximum number of calls of all peers together whose handlers run on goroutines, 1
	// to 1<<23. A Total of 0 means eight times Concurrent. When all peers together have N counted
	// calls, and one more would exceed Total, the peers of one host can have at most 2*Total - N
	// counted calls. Each unacknowledged answer of an ended stream counts as one call of the host, up
	// to 16 calls for each stream. When a peer opens a stream, up to 16 of the calls of its ended
	// streams do not count. A call whose endpoint has ended counts for the host until its handler
	// returns. A peer's only running call is always allowed and does not count, unless handlers of
	// ended endpoints of the same host are running. All peers together have less than 2*Total running
	// calls, plus one for each peer. For a new stream of a peer that has an open stream, or whose
	// ended streams count as more than 16 calls, the limit on the calls of all peers is seven eighths
	// of Total.
	Total int
	// RequestBytes is the maximum size, in total, of the requests of one peer whose handlers run on
	// goroutines, 1 to 1<<40. A RequestBytes of 0 means 64 MiB. A call fails with ErrBusy if its
	// request and the peer's running requests together exceed RequestBytes. A call fails with
	// ErrRequestSize if its request alone exceeds RequestBytes. The limit for the requests of all
	// peers together is 8*RequestBytes. When the running requests of all peers have R bytes, and a new
	// request would raise this sum above 8*RequestBytes, the Node accepts the new request only if the
	// requests of the same host, with the new request, have at most 16*RequestBytes - R bytes. A peer
	// without a running request can always send one request of at most 64 KiB, unless handlers of
	// ended endpoints of the same host are running. The running requests of a peer count towards R
	// (those of all peers) only while they exceed 64 KiB together. All running requests together have
	// at most 16*RequestBytes, plus 64 KiB for each peer.
	//
	// RequestBytes, or 1 MiB if RequestBytes is less, is also the limit S for the requests that this
	// Node has sent to one peer, and that the peer has not acknowledged. A request of at most 1 KiB
	// does not count towards the limit S. A Call waits while its request and the unacknowledged
	// requests to the peer together exceed S, but a request larger than S is sent when no other
	// request to the peer is unacknowledged. The limit for the unacknowledged requests to all peers
	// together is 8*S. While the unacknowledged requests to all peers have U bytes, Call waits until
	// the requests to the same host have less than 16*S - U bytes, or until the host has no counted
	// requests. The size of the new request does not matter. The unacknowledged requests to a peer
	// count towards U (those to all peers) only while they exceed 64 KiB together.
	RequestBytes int64
	// AnswerBytes is the maximum size, in total, of the answers to one peer that the peer has not
	// acknowledged, 1 to 1<<40. An AnswerBytes of 0 means 64 MiB. When AnswerBytes is reached, new
	// calls fail with ErrBusy, and the server replaces the answers of running calls by ErrAnswerRoom.
	// A single unacknowledged answer does not count towards AnswerBytes after it was sent. If there
	// are several, the first 1 MiB does not count. Answers of at most 1 KiB count until they are sent.
	// The limit for the answers to all peers together is 8*AnswerBytes. When the unacknowledged
	// answers to all peers have A bytes, and a new answer would raise this sum above 8*AnswerBytes,
	// the Node sends the new answer only if the answers to the same host, with the new answer, have at
	// most 16*AnswerBytes - A bytes. The unacknowledged answers to a peer count towards A (those to
	// all peers) only while they exceed 132 KiB, of which 4 KiB are for the bookkeeping of queued
	// answers. A peer with at most 64 KiB of unacknowledged answers can always get one more answer of
	// at most 64 KiB. All answers together have at most 16*AnswerBytes, plus 132 KiB for each peer.
	// The answers of ended streams, of at most 128 KiB each, count as calls towards Total instead of
	// counting towards A.
	AnswerBytes int64
	// MessageBytes is the maximum size of a request or answer that this Node accepts, 1<<18 to 1<<31
	// bytes. A MessageBytes of 0 means the largest of RequestBytes, AnswerBytes and 64 MiB, but at
	// most 1<<31. When the first packet of a message that exceeds MessageBytes arrives, this Node
	// refuses the message, and allocates no memory for it. If this Node refuses a request because the
	// request exceeds MessageBytes, the peer's Call returns ErrRequestSize. If this Node refuses an
	// answer because the answer exceeds MessageBytes, the local Call returns ErrAnswerSize.
	MessageBytes int64
}

// The method "fill" replaces zero fields of a Config by their defaults, and returns ErrConfig for a
// value that is out of range.
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
// context of a Handler is cancelled at the caller's deadline, when the caller's context is
// cancelled, when the caller's endpoint ends, or when the Node closes. The Handler owns the slice
// "request", and may keep and change it.
type Handler func(ctx context.Context, peer *btl.Endpoint, request []byte) ([]byte, error)

// Inline is a handler that answers a request without a goroutine of its own. An Inline handler runs
// on the goroutine that drives the module, and must not block. An Inline handler appends its answer
// to the argument "answer", an empty slice, and returns the extended slice. The slice "request" is
// valid only until the Inline handler returns.
type Inline func(peer *btl.Endpoint, request, answer []byte) ([]byte, error)

// Node is both a client and a server, which sends calls to peers and serves the calls of peers,
// over one module.
type Node struct {
	cfg Config
	m   *btl.Module
	r   *runner.Runner

	mu      sync.RWMutex // guards the three tables of methods
	methods map[uint16]Handler
	inline  map[uint16]Inline
	named   map[string]Handler

	// The fields from "lastID" to "idleUnacked" of a Node belong to the goroutine that drives the
	// module.
	lastID  uint64
	asked   map[*btl.Endpoint]map[uint64]*question // by the number of the call
	asks    unackedRequests
	spare   []*sentRequest
	scratch []byte

	idleUnacked []*unacked // for answers

	runMu   sync.Mutex // guards the next four fields
	load    load       // sum over all callers
	counted load       // sum of caller.counted over all callers
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

// The type "served" identifies a running call at the server by the caller's endpoint and the number
// of the call.
type served struct {
	peer *btl.Endpoint
	id   uint64
}

// The type "question" is a call that waits for its answer.
type question struct {
	peer     *btl.Endpoint
	ofStream bool         // callOptions.ofStream
	sent     *sentRequest // nil if the request was not sent; may be another call's by now
	waker    runner.Waker
	answer   []byte
	status   status
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

// The type "head" is the header of a message.
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

// The method "bytes" returns the length of a message's header, including the name of the called
// method.
func (h *head) bytes() int { return headBytes + len(h.name) }

// getHead parses the header of a message. The result "ok" of getHead reports whether the message is
// well-formed. The results "name" and "body" are subslices of b.
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

// New makes a Node that uses one tag of a module. After New, the caller registers the methods, and
// calls Start. Before Start, only the goroutine that owns the module may use the Node. New returns
// ErrConfig for an invalid configuration, an invalid tag, or a tag that already has a handler. For
// an invalid tag, the error of New matches both ErrConfig and btl.ErrTag.
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
		asks:   newUnackedRequests(max(cfg.RequestBytes, unackedFree)),
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
// function onEvent, which can be nil, gets the events of the endpoints. All methods of a Runner
// that a second Start returns fail with runner.ErrTaken.
func (n *Node) Start(cfg runner.Config, onEvent func(*btl.Endpoint, btl.Event, error),
) *runner.Runner {
	return runner.New(n.m, cfg, onEvent, n.Layer())
}

// Layer returns the Node's Layer. If several layers share a module, the caller passes the Layer to
// runner.New instead of calling Start. Before the Runner has started, all blocking methods of a
// Node return runner.ErrNotStarted.
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

// Handle registers the handler h for a method with a number, or removes the method's handler if h
// is nil. Handle can be called at any time, and is safe for concurrent use.
func (n *Node) Handle(method uint16, h Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.inline, method)
	if n.methods[method] = h; h == nil {
		delete(n.methods, method)
	}
}

// HandleName registers the handler h for a method that has a name instead of a number, or removes
// the method's handler if h is nil. HandleName can be called at any time, and is safe for
// concurrent use. The name of a method has 1 to 255 bytes, and is part of each request. HandleName
// returns ErrMethod if the name is empty or too long.
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

// HandleInline registers the inline handler h for a method with a number, or removes the method's
// handler if h is nil. HandleInline can be called at any time, and is safe for concurrent use.
func (n *Node) HandleInline(method uint16, h Inline) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.methods, method)
	if n.inline[method] = h; h == nil {
		delete(n.inline, method)
	}
}

// Close cancels the contexts of running handlers, and waits until all handlers have returned or
// until ctx is cancelled. Close waits for at most one second until all answers are sent, and then
// aborts the endpoints of peers whose answers could not be sent. Calls that arrive after Close fail
// with ErrBusy. If a handler has not returned when ctx is cancelled, Close returns an error. If a
// handler returns only after Close has returned an error, its answer is dropped, and the endpoint
// of its peer is aborted. A call of Close inside a Handler, a StreamHandler or an Inline handler
// has no effect and returns runner.ErrInHandler, because Close would wait for its own caller. Close
// does not close the Runner.
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

// answersGrace is the time for which Close waits until all answers are sent.
const answersGrace = time.Second
