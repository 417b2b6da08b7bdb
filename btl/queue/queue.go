package queue

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/internal/byhost"
	"gobtl/internal/kept"
)

// The errors below can be tested with errors.Is.
var (
	// ErrTooLarge means that the message exceeds the size of the peer's queue.
	ErrTooLarge = errors.New("queue: message is larger than a queue")
	// ErrClosed means that the Queue has closed.
	ErrClosed = errors.New("queue: closed")
	// ErrConfig means that a configuration value is out of its range.
	ErrConfig = errors.New("queue: invalid configuration")
)

// Config configures a Queue. A field of this Config that is zero has its default value, except for
// Tag, whose value 0 means the tag 0.
type Config struct {
	// Tag is the module's tag for the Queue, 0 to btl.TagMax. Both sides must use the same tag.
	Tag btl.Tag
	// Bytes is the maximum size of the messages of one peer that wait for Take, from 1024 to 1<<40
	// bytes. A Bytes of 0 means 4 MiB. Each message counts as its length plus 64 bytes. Bytes limits
	// the size of the sent messages that one peer has not acknowledged, except that a single message
	// of any size can be sent alone. The peer's Bytes limits the size of the sent messages that wait
	// for Take at the peer.
	Bytes int64
	// TotalBytes is the maximum size of the messages of all connected peers that wait for Take, from
	// Bytes to 1<<40 bytes. A TotalBytes of 0 means 64 times Bytes. Each message counts as its length
	// plus 64 bytes. When TotalBytes is exceeded, the Queue finds the host whose messages use the most
	// bytes, and aborts the endpoint of this host whose messages use the most bytes. Take still
	// returns the messages of an aborted endpoint, unless the Queue drops them because GoneBytes is
	// exceeded.
	//
	// TotalBytes also limits the size U of the unacknowledged messages to all peers together. When U
	// reaches TotalBytes, Send to a peer waits unless the unacknowledged messages to the peer's host
	// use less than 2*TotalBytes - U bytes. If no unacknowledged message to the peer's host counts
	// towards U, Send does not wait for TotalBytes. The messages to one peer do not count towards U
	// while they use at most 64 KiB, and at most a quarter of Bytes. All unacknowledged messages
	// together use less than twice TotalBytes, plus the messages that do not count, plus one message
	// for each host. If a peer acknowledges nothing, Sends to other peers of the same host can wait
	// too.
	TotalBytes int64
	// GoneBytes is the maximum size of the messages of ended endpoints that wait for Take, at most
	// 1<<40 bytes. A GoneBytes of 0 means eight times Bytes. Each ended endpoint counts as 4096 bytes
	// plus its messages. When GoneBytes is exceeded, the Queue drops the messages of the oldest ended
	// endpoints of the host whose ended endpoints count most towards GoneBytes.
	GoneBytes int64
}

const (
	bytesLeast    = 1024
	bytesMost     = 1 << 40
	bytesDefault  = 4 << 20
	goneFactor    = 8
	totalFactor   = 64
	overheadBytes = 64
	// goneBytes is the number of bytes that an ended endpoint counts towards Config.GoneBytes, in
	// addition to its messages.
	goneBytes  = 4096
	headBytes  = 8
	limitBytes = 16
	waitsBytes = 8
	limitParts = 4 // 1/4 of a window must be taken before a new limit
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
	Data []byte // owned by the caller
}

// Queue sends messages, and stores received messages until Take returns them.
type Queue struct {
	cfg    Config
	m      *btl.Module
	r      *runner.Runner
	hostOf func(*btl.Endpoint) string // Endpoint.PeerHost

	onDone func(*btl.Fragment, error) // the OnDone of all data messages

	// Only the goroutine that drives the module may use the fields "to", "unacked", "telling" and
	// "asking" of a Queue.
	to      map[*btl.Endpoint]*sender // an ended endpoint stays while messages to it count in unacked
	unacked unacked
	telling map[*btl.Endpoint]bool // peers whose limit waits for resources to be sent
	asking  map[*btl.Endpoint]bool // peers whose hello waits for resources to be sent

	open context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex // guards the following fields
	from   map[*btl.Endpoint]*inbox
	held   int64                    // bytes that wait in the inboxes of the map "from"
	ready  byhost.Turns[*inbox]     // the inboxes; those with messages wait for a turn of Take
	gone   *kept.Keeper[*inbox]     // inboxes of ended endpoints
	left   map[*btl.Endpoint]*inbox // inboxes of ended endpoints, with messages
	takers map[*btl.Endpoint]*taker // Takes that wait: the oldest of each peer, nil for any peer
	closed bool
}

// The type "inbox" is the queue of messages received from one peer.
type inbox struct {
	peer     *btl.Endpoint
	messages [][]byte
	received int64 // bytes in total, like the next two fields
	taken    int64
	told     int64 // value of taken in the latest limit sent
	waits    int64 // total bytes that the peer had sent when its Send began to wait, or 0
	ended    bool
	later    bool                  // a goroutine will send the peer its limit
	turn     byhost.Member[*inbox] // in Queue.ready
}

// New makes a Queue that uses one tag of a module. Until Start is called, only the goroutine that
// owns the module may use the Queue. New returns btl.ErrTag for an invalid tag, and ErrConfig for
// an invalid configuration or if the tag already has a handler.
func New(m *btl.Module, cfg Config) (*Queue, error) {
	if cfg.Bytes == 0 {
		cfg.Bytes = bytesDefault
	}
	if cfg.Bytes < bytesLeast || cfg.Bytes > bytesMost {
		return nil, fmt.Errorf("%w: Bytes is %d, want %d to %d", ErrConfig, cfg.Bytes, bytesLeast,
			int64(bytesMost))
	}
	if cfg.TotalBytes == 0 {
		cfg.TotalBytes = totalFactor * min(cfg.Bytes, bytesMost/totalFactor)
	}
	if cfg.TotalBytes < cfg.Bytes || cfg.TotalBytes > bytesMost {
		return nil, fmt.Errorf("%w: TotalBytes is %d, want Bytes, which is %d, to %d", ErrConfig,
			cfg.TotalBytes, cfg.Bytes, int64(bytesMost))
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
		takers: map[*btl.Endpoint]*taker{}, hostOf: (*btl.Endpoint).PeerHost,
		gone: kept.New[*inbox](cfg.GoneBytes), left: map[*btl.Endpoint]*inbox{},
	}
	q.unacked.bound = byhost.NewBound(cfg.TotalBytes, min(freeBytesMax, cfg.Bytes/freeParts))
	q.onDone = func(f *btl.Fragment, _ error) { q.acknowledged(f.Endpoint(), int64(f.Context)) }
	q.open, q.end = context.WithCancel(context.Background())
	most := uint32(min(cfg.Bytes+headBytes, math.MaxUint32))
	if err := m.Hooks().ClaimTag(cfg.Tag, most, q.receive); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return q, nil
}

// Start starts a Runner for the module, with the Queue as its only layer, and returns the Runner.
// The caller of Start uses the Runner to connect, and must close the Runner after the Queue. The
// function onEvent, which can be nil, gets the events of the endpoints. All methods of a Runner
// that a second Start returns fail with runner.ErrTaken.
func (q *Queue) Start(cfg runner.Config, onEvent func(*btl.Endpoint, btl.Event, error),
) *runner.Runner {
	return runner.New(q.m, cfg, onEvent, q.Layer())
}

// Layer returns the Queue's layer, for programs that call runner.New instead of Start because
// several layers share a module. Before the Runner has started, all methods of a Queue that can
// wait return runner.ErrNotStarted.
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

// The method "receive" handles the messages with the Queue's tag, and drops malformed messages.
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

// noteWaits records that a Send at the peer waits until Take has returned all messages that the
// peer has sent. The argument "sent" of noteWaits is the total number of bytes that the peer has
// sent.
func (q *Queue) noteWaits(peer *btl.Endpoint, sent uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if sent < 1<<62 && !q.closed {
		in := q.inbox(peer)
		in.waits = max(in.waits, int64(sent))
	}
}

// The method "due" reports whether a new limit on the peer's total bytes must be sent to the peer.
// A new limit is due if Take has returned a quarter of the window since the latest limit was sent,
// or if a Send at the peer waits and Take has returned all received messages. No new limit is due
// while a goroutine waits to send the limit.
func (in *inbox) due(window int64) bool {
	untold := in.taken - in.told
	return !in.ended && !in.later && (untold >= window/limitParts ||
		untold > 0 && in.waits > in.told && len(in.messages) == 0)
}

// The method "inbox" returns the inbox (queue of received messages) of a peer, and makes the inbox
// if there is none. The caller holds q.mu.
func (q *Queue) inbox(peer *btl.Endpoint) *inbox {
	in := q.from[peer]
	if in == nil {
		in = &inbox{peer: peer}
		in.turn.What = in
		q.ready.Enter(&in.turn, q.hostOf(peer))
		q.from[peer] = in
	}
	return in
}

// The method "keep" appends a received message to the inbox of its peer. If the message exceeds the
// peer's limit on bytes, the endpoint of the peer is aborted. If the new message makes the messages
// of all peers exceed TotalBytes, the method "keep" aborts an endpoint of the host whose messages
// use the most bytes.
func (q *Queue) keep(peer *btl.Endpoint, body []byte) {
	for _, ep := range q.tryKeep(peer, body) {
		ep.Abort()
	}
}

// tryKeep appends a received message to the inbox of its peer, and returns the endpoints that the
// caller must abort.
func (q *Queue) tryKeep(peer *btl.Endpoint, body []byte) (ended []*btl.Endpoint) {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.inbox(peer)
	if q.closed {
		return nil
	}
	if in.received+cost(len(body)) > in.taken+q.cfg.Bytes {
		return []*btl.Endpoint{peer}
	}
	in.received += cost(len(body))
	data := append([]byte(nil), body...)
	if q.pass(in, data) {
		return nil
	}
	q.held += cost(len(body))
	in.messages = append(in.messages, data)
	q.ready.Wait(&in.turn)
	for q.held > q.cfg.TotalBytes {
		most := q.most()
		q.leave(most)
		ended = append(ended, most.peer)
	}
	return ended
}

// The method "most" finds the host whose inboxes (queues of received messages) contain the most
// bytes, and returns the largest inbox of this host. The caller holds q.mu.
func (q *Queue) most() (most *inbox) {
	atHost := make(map[string]int64)
	for peer, in := range q.from {
		atHost[q.hostOf(peer)] += in.held()
	}
	mostHost := ""
	for peer, in := range q.from {
		host := q.hostOf(peer)
		if most == nil || atHost[host] > atHost[mostHost] ||
			host == mostHost && in.held() > most.held() {
			most, mostHost = in, host
		}
	}
	return most
}

// The method "held" returns the number of received bytes that wait for Take.
func (in *inbox) held() int64 { return in.received - in.taken }

func cost(bytes int) int64 { return int64(bytes) + overheadBytes }

// The method "lost" ends the waiting Sends to an endpoint that has ended, and the Takes that wait
// for this endpoint's messages. Take still returns the messages that were received from an ended
// endpoint, except messages that the Queue drops because Config.GoneBytes is exceeded.
func (q *Queue) lost(ep *btl.Endpoint) {
	err := cmp.Or(ep.Err(), btl.ErrClosed)
	if s := q.to[ep]; s != nil {
		s.end(err)
		s.ended = true
		q.forget(s)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endWaits(ep, err)
	if in := q.from[ep]; in != nil {
		q.leave(in)
	}
}

// The method "leave" moves the inbox of an ending endpoint to the inboxes of ended endpoints, whose
// memory GoneBytes limits. The caller holds q.mu.
func (q *Queue) leave(in *inbox) {
	delete(q.from, in.peer)
	q.held -= in.held()
	in.ended = true
	if len(in.messages) == 0 {
		q.ready.Leave(&in.turn)
		return
	}
	q.left[in.peer] = in
	for _, in := range q.gone.Add(q.hostOf(in.peer), in, goneBytes+in.held()) {
		q.ready.Leave(&in.turn)
		delete(q.left, in.peer)
	}
}
