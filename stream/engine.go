package stream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/mono"
)

// Engine sends and receives streams over a btl module. For the unreliable mode, an Engine has, in
// addition to the module, an endpoint of the fabric. Only one goroutine may use an Engine. An
// Engine has no clock, and does its work only in calls of Progress. A Port calls the Engine in
// ordinary programs, and the simulator calls the Engine in virtual time.
type Engine struct {
	m     *btl.Module
	data  *dataPort // nil: only reliable streams
	now   mono.Time
	polls mono.Time // time of the module's latest Progress

	receivers  map[uint64]*Receiver // by the receiver's own key
	sending    []*Sender
	receiving  []*Receiver               // all receivers of this engine; few
	bySource   map[dataSource]*Receiver  // receivers of streams in the unreliable mode
	begun      map[peerStream]*Receiver  // receivers whose streams have begun
	linked     map[peerStream]*link      // open links
	latest     *Receiver                 // receiver of the latest datagram
	stall      stall                     // of all receivers
	outboxes   map[*btl.Endpoint]*outbox // peers' outboxes with queued messages
	candidates map[uint64]*candidate     // by their data key
	refused    Refusals                  // refusals of peers that belong to no stream
	letters    letters                   // bound of the control messages in JSON
	links      []*link                   // by link.number, which put fragments carry
	onDone     func(*btl.Fragment, error)
	random     func() uint64 // random numbers that must not be guessable
	otherHosts otherHosts
	places     places // of the module, taken by lines
	closed     bool
	// The slice "lingering" has the ended senders whose rings the fabric may still read.
	lingering []*Sender
}

// peerStream identifies a stream by the peer's endpoint and the sender's key.
type peerStream struct {
	ep  *btl.Endpoint
	key uint64
}

const (
	// moduleEvery is the interval between calls of the btl module's Progress while every poll of the
	// data endpoint returns datagrams.
	moduleEvery = 100 * time.Microsecond
	// ringEvery is the interval between checks of a ring whose states another process may change.
	ringEvery = time.Millisecond
	// noticeEvery is the interval between the progress reports that a sender sends to its receivers.
	noticeEvery = 100 * time.Millisecond
	streamsMax  = 1024 // senders and receivers of an engine
)

// NewEngine starts an engine on a module. The argument "data" of NewEngine is a domain for the
// unreliable mode, opened with DataConfig, or nil. The engine owns the module and the domain, even
// if NewEngine returns an error. The engine uses the module's tags 1 and 2 and the callbacks
// OnEndpoint and OnRoom, which the caller must not use.
func NewEngine(m *btl.Module, data fabric.Domain) (*Engine, error) {
	e := &Engine{
		m: m, receivers: make(map[uint64]*Receiver),
		bySource: make(map[dataSource]*Receiver), random: randomKey,
		begun: make(map[peerStream]*Receiver), linked: make(map[peerStream]*link),
		outboxes: make(map[*btl.Endpoint]*outbox), candidates: make(map[uint64]*candidate),
	}
	e.onDone = e.putDone
	err := errors.Join(m.HandleUpTo(tagLetter, letterBytesMax, e.onLetter),
		m.HandleUpTo(tagNotice, noticeBytes, e.onNotice))
	if err == nil && data != nil {
		e.data, err = newDataPort(data)
	}
	if err != nil {
		err = errors.Join(err, m.Close())
		if data != nil {
			err = errors.Join(err, data.Close())
		}
		return nil, err
	}
	m.OnEndpoint(e.onEndpoint)
	m.OnRoom(e.onRoom)
	return e, nil
}

// Module returns the engine's btl module, so that the caller can read the module's counters and use
// tags that the engine does not use.
func (e *Engine) Module() *btl.Module { return e.m }

// Progress does all work that is due, and returns the number of received packets. An error of
// Progress means that the fabric has failed.
func (e *Engine) Progress(now mono.Time) (int, error) {
	if e.closed {
		return 0, ErrClosed
	}
	e.now = now
	n, err := 0, error(nil)
	if e.data != nil {
		if n, err = e.data.poll(e); err != nil {
			return n, fmt.Errorf("stream: data endpoint: %w", err)
		}
	}
	if n == 0 || now.Sub(e.polls) >= moduleEvery {
		e.polls = now
		m, err := e.m.Progress(now)
		n += m
		if err != nil {
			return n, fmt.Errorf("stream: transport: %w", err)
		}
	}
	for _, s := range e.sending {
		n += s.progress(now)
	}
	for _, r := range e.receiving {
		r.progress(now)
	}
	e.sweep()
	return n, nil
}

// sweep removes streams that have ended.
func (e *Engine) sweep() {
	e.letGo(false)
	for i := len(e.sending) - 1; i >= 0; i-- {
		if s := e.sending[i]; s.state == stateDone {
			e.sending = append(e.sending[:i], e.sending[i+1:]...)
		}
	}
	for i := len(e.receiving) - 1; i >= 0; i-- {
		if r := e.receiving[i]; r.state == stateDone {
			e.receiving = append(e.receiving[:i], e.receiving[i+1:]...)
			delete(e.receivers, r.own)
			e.forgetBegun(r)
			if e.bySource[r.source] == r {
				delete(e.bySource, r.source)
			}
			if e.latest == r {
				e.latest = nil
			}
		}
	}
}

// Deadline returns the time at which Progress must be called next if no packet arrives.
func (e *Engine) Deadline() mono.Time {
	d := e.m.Deadline()
	for _, s := range e.sending {
		d = d.Min(s.deadline(e.now))
	}
	for _, r := range e.receiving {
		d = d.Min(r.deadline(e.now))
	}
	for _, s := range e.lingering {
		if at := s.expiresAt(); at > e.now {
			d = d.Min(at)
		}
	}
	if e.data != nil && e.data.waiting() {
		d = d.Min(e.now.Add(ringEvery))
	}
	return d
}

// Close closes the engine without waiting for streams to end. A sender or receiver whose stream has
// not ended yet ends with ErrClosed.
func (e *Engine) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	for _, s := range e.sending {
		s.fail(ErrClosed)
	}
	for _, r := range e.receiving {
		r.fail(ErrClosed)
	}
	err := e.m.Close()
	if e.data != nil {
		err = errors.Join(err, e.data.dom.Close())
	}
	e.letGo(true)
	return err
}

// letGo returns the ring of each ended sender to the program, as soon as the fabric no longer reads
// the ring. If the argument "all" is true, the fabric is closed, and letGo returns all rings
// immediately.
func (e *Engine) letGo(all bool) {
	if len(e.lingering) == 0 {
		return
	}
	for i := 0; i < len(e.lingering) && !all; i++ { // the end of a connection may end more senders
		e.lingering[i].expirePuts(e.now)
	}
	e.lingering = slices.DeleteFunc(e.lingering, func(s *Sender) bool {
		if !all && s.underWay > 0 {
			return false
		}
		s.letGo()
		return true
	})
}

// drain begins to close the connections to all peers. Before a connection closes, the messages that
// are queued for its peer are sent. drained reports whether all connections are closed.
func (e *Engine) drain(until mono.Time) { e.m.Drain(e.now, until) }

func (e *Engine) drained() bool { return len(e.outboxes) == 0 && e.m.Drained() }

func (e *Engine) sendLetter(ep *btl.Endpoint, l *letter) {
	b, err := l.encode()
	if err != nil {
		panic("stream: letter cannot be encoded: " + err.Error())
	}
	e.send(ep, tagLetter, b)
}

func (e *Engine) sendNotice(ep *btl.Endpoint, n notice) {
	var b [noticeBytes]byte
	n.put(b[:])
	e.send(ep, tagNotice, b[:])
}

// onLetter handles a letter, which is a control message in JSON. Invalid control messages are
// dropped. The stream of a peer that sends invalid control messages ends by a time-out. Letters
// that exceed the byte limits of their sender are not parsed (see letters.go).
func (e *Engine) onLetter(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	if ep.Err() != nil {
		return
	}
	streams, partner := len(e.sending)+len(e.receiving), e.letters.partners[ep] > 0
	switch e.letters.judge(ep, e.now, letterWork+len(data), streams, partner) {
	case mustEnd:
		e.endLetters(ep)
		return
	case mustDrop:
		e.refused.Letters++
		return
	case mayParse:
	}
	l, err := parseLetter(data)
	if err != nil {
		return
	}
	switch l.Kind {
	case letterHello:
		e.onHello(ep, l)
	case letterStart:
		if s := e.candidateOf(ep, l.Key); s != nil {
			s.start(l.Start)
		} else if r := e.receiverOf(ep, l.Key); r == nil {
			e.refused.Strangers++ // the receiver may have refused this sender before the start arrived
			e.abort(ep, l.Key, codeTaken, "start of a stream that is not received here")
		} else if r.state == stateRunning {
			r.startAgain(l.Start)
		}
	case letterEnd:
		if r := e.receiverOf(ep, l.Key); r != nil {
			r.ending(l.End)
		}
	case letterWelcome, letterProof, letterReady, letterReport:
		if k := e.linkOf(ep, l.Key); k != nil {
			k.letter(l)
		}
	case letterAbort:
		e.onAbort(ep, l)
	}
}

// onAbort handles the message by which a peer reports that its side of the stream has failed, or
// that it refuses this process.
func (e *Engine) onAbort(ep *btl.Endpoint, l *letter) {
	err := failedError(l)
	if r := e.receiverOf(ep, l.Key); r != nil {
		r.fail(err)
	} else if s := e.candidateOf(ep, l.Key); s != nil {
		s.left(err)
	} else if k := e.linkOf(ep, l.Key); k != nil {
		k.refusedThere(err)
	}
}

func failedError(l *letter) error {
	if l.Code == codeTaken {
		taken := inner(ErrTaken)
		return fmt.Errorf("%w: %w: %s", ErrPeerFailed, taken,
			strings.TrimPrefix(reasonOf(l.Reason), taken.Error()+": "))
	}
	return fmt.Errorf("%w: %s", ErrPeerFailed, reasonOf(l.Reason))
}

func (e *Engine) onNotice(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	n, ok := parseNotice(data)
	if !ok {
		return
	}
	if n.kind == noticeCredit || n.kind == noticeTaken {
		if k := e.linkOf(ep, n.key); k != nil {
			k.notice(n)
		}
		return
	}
	if r := e.receiverOf(ep, n.key); r != nil {
		r.notice(n)
	}
}

// onHello passes a sender's hello message to the receiver that the message names. If the engine has
// no receiver that the message names, onHello refuses the sender.
func (e *Engine) onHello(ep *btl.Endpoint, l *letter) {
	r := e.receivers[l.Hello.To]
	switch {
	case r == nil || r.state > stateRunning:
		e.refused.Strangers++
		e.abort(ep, l.Key, "", "there is no such receiver here (any more)")
	case r.ep != nil:
		if r.ep != ep || r.key != l.Key {
			r.refuse(ep, l.Key, RefusedTaken, errTaken)
			return
		}
		r.meetAgain(l)
	case e.receiverOf(ep, l.Key) != nil:
		r.refuse(ep, l.Key, RefusedMismatch,
			fmt.Errorf("%w: the stream is received here already", ErrMismatch))
	default:
		r.meet(ep, l)
	}
}

func (e *Engine) abort(ep *btl.Endpoint, key uint64, code, reason string) {
	e.sendLetter(ep, &letter{Kind: letterAbort, Key: key, Code: code, Reason: reason})
}

// receiverOf returns the receiver of a peer's stream that has begun, or nil if there is none. The
// running times of receiverOf and linkOf must not grow with the number of streams, because a peer
// can send any number of notices, and each notice causes a lookup.
func (e *Engine) receiverOf(ep *btl.Endpoint, key uint64) *Receiver {
	return e.begun[peerStream{ep, key}]
}

// addBegun records that a receiver's stream has begun.
func (e *Engine) addBegun(r *Receiver) {
	e.begun[peerStream{r.ep, r.key}] = r
	e.letters.partner(r.ep, 1)
}

// forgetBegun forgets a receiver whose stream has ended, if the stream had begun.
func (e *Engine) forgetBegun(r *Receiver) {
	if id := (peerStream{r.ep, r.key}); e.begun[id] == r {
		delete(e.begun, id)
		e.letters.partner(r.ep, -1)
	}
}

// linkOf returns the link between a sender's stream and the receiver at endpoint ep, or nil if
// there is none.
func (e *Engine) linkOf(ep *btl.Endpoint, key uint64) *link {
	return e.linked[peerStream{ep, key}]
}

func (e *Engine) uses(ep *btl.Endpoint) bool {
	for _, s := range e.sending {
		for _, k := range s.links {
			if k.ep == ep && k.state != linkDone {
				return true
			}
		}
	}
	for _, r := range e.receiving {
		if r.ep == ep || r.candidateOf(ep) != nil {
			return true
		}
	}
	return false
}

// onEndpoint handles the events of all endpoints, which report new and ended connections.
func (e *Engine) onEndpoint(ep *btl.Endpoint, ev btl.Event, err error) {
	for _, s := range e.sending {
		for _, k := range s.links {
			if k.ep == ep {
				k.endpoint(ev, err)
			}
		}
	}
	if ev == btl.EventConnected {
		return
	}
	delete(e.outboxes, ep)
	e.letters.end(ep, e.now)
	e.places.leave(ep)
	for _, r := range e.receiving {
		if r.ep == ep {
			r.fail(lostError(err))
		}
		if s := r.candidateOf(ep); s != nil {
			s.drop() // a different sender may connect
		}
	}
}

// lostError returns the error of package stream for the end of a connection. The argument "err" of
// lostError is the reason for which the connection has ended, or nil.
func lostError(err error) error {
	if err == nil {
		return ErrPeerLost
	}
	return fmt.Errorf("%w: %w", ErrPeerLost, inner(err))
}
