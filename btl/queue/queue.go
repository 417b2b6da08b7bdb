package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/internal/kept"
)

// Errors of the package; test for them with errors.Is.
var (
	// ErrTooLarge: the message is larger than the peer's queue.
	ErrTooLarge = errors.New("queue: message is larger than a queue")
	// ErrClosed: the Queue has closed.
	ErrClosed = errors.New("queue: closed")
	// ErrConfig: a configuration value is out of its range.
	ErrConfig = errors.New("queue: invalid configuration")
)

// Config tunes a Queue; the zero value is a good default but for the tag.
type Config struct {
	// Tag is the module's tag that the Queue uses, 0 to btl.TagMax, the same at both sides.
	Tag btl.Tag
	// Bytes bounds the untaken messages of one peer, 64 bytes overhead for each included, 1024 to
	// 1<<40; 0 means 4 MiB. The receiver's value is in force.
	Bytes int64
	// GoneBytes bounds the untaken messages of ended endpoints, 4096 bytes for each endpoint
	// included, up to 1<<40; 0 means eight times Bytes. Beyond it the peer address with the largest
	// share loses the messages of its endpoint that ended first.
	GoneBytes int64
}

const (
	bytesLeast    = 1024
	bytesMost     = 1 << 40
	bytesDefault  = 4 << 20
	goneFactor    = 8
	overheadBytes = 64
	// goneBytes is the cost of an ended endpoint, beside its untaken messages.
	goneBytes  = 4096
	headBytes  = 8
	limitBytes = 16
	waitsBytes = 8
	limitParts = 4 // of a window is taken when the sender is told
)

type kind uint8

const (
	kindData  kind = 1
	kindHello kind = 2
	kindLimit kind = 3
)

// Message is a message that Take has returned.
type Message struct {
	Peer *btl.Endpoint
	Data []byte // the caller's
}

// Queue sends messages, and keeps received ones until they are taken.
type Queue struct {
	cfg Config
	m   *btl.Module
	r   *runner.Runner

	// Fields of the goroutine that drives the module.
	to      map[*btl.Endpoint]*sender
	telling map[*btl.Endpoint]bool // a goroutine waits for room to tell the peer its limit
	asking  map[*btl.Endpoint]bool // and to ask it for one

	open context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex // of the rest
	from   map[*btl.Endpoint]*inbox
	ready  []*inbox             // with messages, whose turn is next in front
	gone   *kept.Keeper[*inbox] // of ended endpoints
	closed bool
	more   chan struct{} // closed when something has come
}

// inbox is the queue of messages received from a peer.
type inbox struct {
	peer     *btl.Endpoint
	messages [][]byte
	received int64 // since the beginning, as the next two
	taken    int64
	told     int64 // of taken, with the latest limit
	waits    int64 // what the peer had sent, or was to send next, when it began to wait; or 0
	ended    bool
}

// New takes a tag of a module for messages; then Start it. It belongs to the goroutine that owns
// the module until then.
func New(m *btl.Module, cfg Config) (*Queue, error) {
	if cfg.Bytes == 0 {
		cfg.Bytes = bytesDefault
	}
	if cfg.Bytes < bytesLeast || cfg.Bytes > bytesMost {
		return nil, fmt.Errorf("%w: Bytes is %d, want %d to %d", ErrConfig, cfg.Bytes, bytesLeast,
			int64(bytesMost))
	}
	if cfg.GoneBytes == 0 {
		cfg.GoneBytes = goneFactor * min(cfg.Bytes, bytesMost/goneFactor)
	}
	if cfg.GoneBytes < 0 || cfg.GoneBytes > bytesMost {
		return nil, fmt.Errorf("%w: GoneBytes is %d, want 0 to %d", ErrConfig, cfg.GoneBytes,
			int64(bytesMost))
	}
	q := &Queue{
		cfg: cfg, m: m, to: map[*btl.Endpoint]*sender{}, from: map[*btl.Endpoint]*inbox{},
		telling: map[*btl.Endpoint]bool{}, asking: map[*btl.Endpoint]bool{},
		more: make(chan struct{}),
		gone: kept.New[*inbox](cfg.GoneBytes),
	}
	q.open, q.end = context.WithCancel(context.Background())
	// A message that no queue of this side could hold is refused before memory is allocated for it.
	most := uint32(min(cfg.Bytes+headBytes, math.MaxUint32))
	return q, m.HandleUpTo(cfg.Tag, most, q.receive)
}

// Start starts a Runner for the module with the Queue as its only layer, and returns it. The caller
// owns the Runner: it connects by it, and closes it after the Queue. onEvent may be nil.
func (q *Queue) Start(cfg runner.Config, onEvent func(*btl.Endpoint, btl.Event, error),
) *runner.Runner {
	return runner.New(q.m, cfg, onEvent, q.Layer())
}

// Layer returns the Layer for runner.New, in place of Start, where several layers share a module.
// Until the Runner starts all waiting methods return runner.ErrNotStarted.
func (q *Queue) Layer() runner.Layer {
	return runner.Layer{
		Attach: func(r *runner.Runner) { q.r = r },
		Event: func(ep *btl.Endpoint, ev btl.Event, _ error) {
			if ev != btl.EventConnected {
				q.lost(ep)
			}
		},
	}
}

// receive is the handler of the tag. Malformed messages are dropped.
func (q *Queue) receive(peer *btl.Endpoint, _ btl.Tag, data []byte) {
	if len(data) < headBytes || binary.LittleEndian.Uint64(data)>>8 != 0 {
		return
	}
	switch body := data[headBytes:]; kind(data[0]) {
	case kindData:
		q.keep(peer, body)
	case kindHello:
		if len(body) == waitsBytes {
			q.noteWaits(peer, binary.LittleEndian.Uint64(body))
		}
		q.tell(peer)
	case kindLimit:
		if len(body) == limitBytes {
			q.allow(peer, binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:]))
		}
	}
}

// noteWaits notes that a peer, which has sent that many bytes, waits until all of them are taken.
func (q *Queue) noteWaits(peer *btl.Endpoint, sent uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if sent < 1<<62 && !q.closed {
		in := q.inbox(peer)
		in.waits = max(in.waits, int64(sent))
	}
}

// due says whether the peer is to be told a new limit: if a part of the window was taken, or, while
// the peer waits, all received messages. The peer's own count of sent bytes is not used for the
// latter: hellos may overtake each other, and an announced message may have been withdrawn.
func (in *inbox) due(window int64) bool {
	untold := in.taken - in.told
	return !in.ended && (untold >= window/limitParts ||
		untold > 0 && in.waits > in.told && len(in.messages) == 0)
}

// inbox returns the inbox of a peer. The caller holds the lock.
func (q *Queue) inbox(peer *btl.Endpoint) *inbox {
	in := q.from[peer]
	if in == nil {
		in = &inbox{peer: peer}
		q.from[peer] = in
	}
	return in
}

// keep appends a message to its peer's queue. A message beyond the granted limit ends the endpoint.
func (q *Queue) keep(peer *btl.Endpoint, body []byte) {
	if !q.tryKeep(peer, body) {
		peer.Abort()
	}
}

func (q *Queue) tryKeep(peer *btl.Endpoint, body []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.inbox(peer)
	if q.closed {
		return true
	}
	if in.received+cost(len(body)) > in.taken+q.cfg.Bytes {
		return false
	}
	in.received += cost(len(body))
	in.messages = append(in.messages, append([]byte(nil), body...))
	if len(in.messages) == 1 {
		q.ready = append(q.ready, in)
	}
	q.wake()
	return true
}

// wake makes waiting Takes check again. The caller holds the lock.
func (q *Queue) wake() {
	close(q.more)
	q.more = make(chan struct{})
}

func cost(bytes int) int64 { return int64(bytes) + overheadBytes }

// lost ends the calls of an ended endpoint. Messages received from it are kept, within bounds.
func (q *Queue) lost(ep *btl.Endpoint) {
	if s := q.to[ep]; s != nil {
		delete(q.to, ep)
		err := ep.Err()
		if err == nil {
			err = btl.ErrClosed
		}
		s.end(err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake()
	in := q.from[ep]
	if in == nil {
		return
	}
	delete(q.from, ep)
	in.ended = true
	if len(in.messages) == 0 {
		return
	}
	held := goneBytes + in.received - in.taken
	for _, in := range q.gone.Add(ep.PeerAddress(), in, held) {
		q.ready = slices.DeleteFunc(q.ready, func(r *inbox) bool { return r == in })
	}
}
