package btl

import (
	"fmt"

	"gobtl/internal/fifo"
	"gobtl/reliability"
)

// outbox holds notifications of ended sends, endpoint events and completed flushes for the
// application. The application receives the notifications by callbacks, or polls for them with
// Pull. Callbacks run after Progress has updated the protocol state, so a callback may call any
// method except Progress.
//
//	complete --> ended ----+--> callOut: OnDone, OnEndpoint, functions of Flush
//	fail, establish,       |    or
//	checkFlushed --> notices    Pull: Completions
type outbox struct {
	ended   fragmentList // sends whose OnDone was not called yet
	byes    fragmentList // ended Byes of the transport itself, if the application uses Pull
	notices fifo.List[notice]
	onEvent func(*Endpoint, Event, error)

	wanting []*Endpoint // endpoints whose caller got ErrAgain and waits for room
	onRoom  func(*Endpoint)

	pulled bool // the application polls with Pull, and no callback is called
}

// notice is a queued notification of an endpoint event, of the end of a flush, or of free resources
// after ErrAgain.
type notice struct {
	ep      *Endpoint
	err     error
	flushed func(error) // of a flush
	event   Event       // of CompletionEvent
	kind    CompletionKind
}

// push queues the notification that the send of fragment f has ended.
func (o *outbox) push(f *Fragment) {
	if o.pulled && f.isBye() {
		o.byes.push(f)
		return
	}
	o.ended.push(f)
}

// note queues a notification of an endpoint event.
func (o *outbox) note(ep *Endpoint, ev Event, err error) {
	o.notices.Push(notice{ep: ep, kind: CompletionEvent, event: ev, err: err})
}

// noteFlush queues the notification that a flush has completed, where fn is the function given to
// Flush.
func (o *outbox) noteFlush(ep *Endpoint, fn func(error), err error) {
	o.notices.Push(notice{ep: ep, kind: CompletionFlush, flushed: fn, err: err})
}

// due reports whether Progress has callbacks to run.
func (o *outbox) due() bool {
	if o.pulled {
		return o.byes.first != nil
	}
	return o.ended.first != nil || o.notices.Len() > 0
}

// callOut calls the callbacks of all queued notifications, which are OnDone, OnEndpoint, OnRoom
// and the functions given to Flush.
func (m *Module) callOut() {
	o := &m.outbox
	if !o.due() { // the usual case; popping from an empty list would copy a whole notice
		return
	}
	for f := o.byes.pop(); f != nil; f = o.byes.pop() {
		m.byeDone(f.ep)
	}
	for !o.pulled {
		if f := o.ended.pop(); f != nil {
			m.finish(f)
			continue
		}
		n, ok := o.notices.Pop()
		switch {
		case !ok:
			return
		case n.kind == CompletionRoom:
			if o.onRoom != nil {
				o.onRoom(n.ep)
			}
		case n.kind == CompletionFlush:
			if n.flushed != nil { // nil if the flush was requested while the application used Pull
				n.flushed(n.err)
			}
		case o.onEvent != nil:
			o.onEvent(n.ep, n.event, n.err)
		}
	}
}

// finish calls the fragment's OnDone and frees the descriptor.
func (m *Module) finish(f *Fragment) {
	if f.isBye() {
		m.byeDone(f.ep)
		return // the descriptor of a Bye is not from the pool
	}
	if f.OnDone != nil {
		f.OnDone(f, f.err)
	}
	m.freeFrag(f)
}

// CompletionKind is the kind of a Completion.
type CompletionKind uint8

// The kinds of completions.
const (
	CompletionSend  CompletionKind = iota // of an accepted Send that returned Queued
	CompletionFlush                       // of a Flush
	CompletionEvent                       // an event, as for OnEndpoint
	CompletionRoom                        // room after ErrAgain, as for OnRoom
)

// Completion is a notification that Pull returns in place of a callback.
type Completion struct {
	Endpoint *Endpoint
	Err      error          // nil if a send or flush is acknowledged; of an event as for OnEndpoint
	Context  uint64         // of a send: Fragment.Context
	Kind     CompletionKind // the kind of notification
	Event    Event          // of CompletionEvent
}

// PullCompletions selects how the module reports ended sends, endpoint events and flushes. After
// PullCompletions(true) the application polls for notifications with Pull. After
// PullCompletions(false), the default, Progress calls OnDone, OnEndpoint and the functions given
// to Flush. Progress calls the message handlers in both modes. PullCompletions must be called
// before the first Connect. A Runner needs callbacks.
//
// The descriptor of a send is freed only when Pull has returned its completion, so FragmentsMax
// limits the number of unread completions of sends. No further peer can connect while PeersMax
// events are unread.
func (m *Module) PullCompletions(on bool) {
	o := &m.outbox
	o.pulled = on
	m.stir()
	for _, l := range [...]*fragmentList{&o.ended, &o.byes} { // the mode decides the list of a Bye
		for range l.count {
			o.push(l.pop())
		}
	}
}

// Pull fills buf with the completions since the last call of Pull, the oldest first. Pull
// returns completions of sends before those of events and flushes. Pull returns the number
// of completions, which is below len(buf) if no further completion is queued. Pull may be
// called from a handler, and after Close.
func (m *Module) Pull(buf []Completion) int {
	o := &m.outbox
	if !o.pulled {
		return 0
	}
	m.stir()
	for i := range buf {
		if f := o.ended.pop(); f != nil {
			buf[i] = Completion{Endpoint: f.ep, Err: f.err, Context: f.Context}
			m.freeFrag(f)
			continue
		}
		n, ok := o.notices.Pop()
		if !ok {
			return i
		}
		buf[i] = Completion{Endpoint: n.ep, Err: n.err, Kind: n.kind, Event: n.event}
	}
	return len(buf)
}

func (o *outbox) full(peersMax int) bool { return o.pulled && o.notices.Len() >= peersMax }

func (c *checker) checkOutbox(m *Module) error {
	o := &m.outbox
	for _, l := range [...]*fragmentList{&o.ended, &o.byes} {
		if err := c.checkEnded(m, l); err != nil {
			return err
		}
	}
	if o.byes.count > 0 && !o.pulled {
		return fmt.Errorf("%d goodbyes wait for an owner that does not pull", o.byes.count)
	}
	for i, n := range o.notices.All() {
		if n.ep == nil || n.kind == CompletionSend || !o.pulled &&
			(n.kind == CompletionFlush) != (n.flushed != nil) {
			return fmt.Errorf("notice %d without endpoint, or of nothing", i)
		}
	}
	return nil
}

func (c *checker) checkEnded(m *Module, l *fragmentList) error {
	count := 0
	for f := l.first; f != nil; f = f.next {
		if count++; f.state != fragEnded || f.out != 0 || f.data.Registered() ||
			count > l.count {
			return fmt.Errorf("fragment in state %d with %d packets in flight has ended", f.state, f.out)
		}
		if !f.isBye() {
			c.frags[fragEnded]++
		}
		if !f.hasSeg {
			continue
		}
		if c.places[f.seg] != placeNone || m.recovery.State(f.seg) != reliability.Free {
			return fmt.Errorf("send buffer %d of a fragment that has ended is %v, %v", f.seg,
				c.places[f.seg], m.recovery.State(f.seg))
		}
		c.places[f.seg] = placeEnded
		if m.peers.Holds(f.ep) {
			c.held[f.ep.id.Slot]++
		}
	}
	if count != l.count {
		return fmt.Errorf("%d fragments have ended, %d counted", count, l.count)
	}
	return nil
}
