package btl

import (
	"fmt"

	"gobtl/reliability"
)

// outbox holds the notifications for the owner: ended sends, events of endpoints, and completed
// flushes. Callbacks run after the book-keeping of a pass, so that they may do anything but call
// Progress; or the owner pulls the notifications at any time. The cost of each does not depend on
// their number.
//
//	complete --> ended ----+--> callOut: OnDone, OnEndpoint, functions of Flush
//	fail, establish,       |    or
//	checkFlushed --> notices    Pull: Completions
type outbox struct {
	ended   fragmentList // sends whose OnDone was not called yet
	byes    fragmentList // the transport's own that have ended, if the owner pulls all others
	notices fifo[notice]
	onEvent func(*Endpoint, Event, error)

	wanting []*Endpoint // for which there was no room
	onRoom  func(*Endpoint)

	pulled bool // the owner asks; nothing is called
}

// notice is a queued notification: an event of an endpoint, the end of a flush, or new room.
type notice struct {
	ep      *Endpoint
	err     error
	flushed func(error) // of a flush
	event   Event       // of CompletionEvent
	kind    CompletionKind
}

// push adds a fragment that has ended.
func (o *outbox) push(f *Fragment) {
	if o.pulled && f.isBye() {
		o.byes.push(f)
		return
	}
	o.ended.push(f)
}

// note adds an event of an endpoint.
func (o *outbox) note(ep *Endpoint, ev Event, err error) {
	o.notices.push(notice{ep: ep, kind: CompletionEvent, event: ev, err: err})
}

// noteFlush adds a flush that is over.
func (o *outbox) noteFlush(ep *Endpoint, fn func(error), err error) {
	o.notices.push(notice{ep: ep, kind: CompletionFlush, flushed: fn, err: err})
}

// due says whether a pass has callbacks to run.
func (o *outbox) due() bool {
	if o.pulled {
		return o.byes.first != nil
	}
	return o.ended.first != nil || o.notices.len() > 0
}

// callOut calls the functions that wait to be called: OnDone of finished fragments, and endpoint
// events. All book-keeping is done before, so callbacks may do anything but call Progress.
func (m *Module) callOut() {
	o := &m.outbox
	if !o.due() { // as it mostly is: a notice is large, and taking none out costs as much as one
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
		n, ok := o.notices.pop()
		switch {
		case !ok:
			return
		case n.kind == CompletionRoom:
			if o.onRoom != nil {
				o.onRoom(n.ep)
			}
		case n.kind == CompletionFlush:
			if n.flushed != nil { // else it was given while the owner pulled
				n.flushed(n.err)
			}
		case o.onEvent != nil:
			o.onEvent(n.ep, n.event, n.err)
		}
	}
}

// finish calls a fragment's OnDone and takes the descriptor back.
func (m *Module) finish(f *Fragment) {
	if f.isBye() {
		m.byeDone(f.ep)
		return // its descriptor is not of the pool
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
	CompletionEvent                       // what OnEndpoint would have been told
	CompletionRoom                        // what OnRoom would have been told
)

// Completion is a notification for an owner that pulls, in place of a callback.
type Completion struct {
	Endpoint *Endpoint
	Err      error          // nil if a send or flush is acknowledged; of an event as for OnEndpoint
	Context  uint64         // of a send: Fragment.Context
	Kind     CompletionKind // what it is of
	Event    Event          // of CompletionEvent
}

// PullCompletions chooses how the owner is notified: by Pull (true), or by callbacks from Progress,
// those of OnDone, OnEndpoint and Flush (false, the default). Handlers are called from Progress in
// any case. Choose before the first Connect; a Runner uses callbacks.
//
// The descriptor of a send is free when its completion has been pulled, so FragmentsMax bounds
// unpulled completions. While PeersMax events are unpulled, no further peer can connect.
func (m *Module) PullCompletions(on bool) {
	o := &m.outbox
	o.pulled = on
	m.stir()
	for _, l := range [...]*fragmentList{&o.ended, &o.byes} { // to the list where each belongs now
		for range l.count {
			o.push(l.pop())
		}
	}
}

// Pull fills buf with the completions since the last call, the oldest first, sends before events
// and flushes. It returns their number; if that is below len(buf) there are no more. The module's
// owner may call it at any time, also from a handler, and after Close.
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
		n, ok := o.notices.pop()
		if !ok {
			return i
		}
		buf[i] = Completion{Endpoint: n.ep, Err: n.err, Kind: n.kind, Event: n.event}
	}
	return len(buf)
}

// full says whether no further peers may connect, because their events are not pulled.
func (o *outbox) full(peersMax int) bool { return o.pulled && o.notices.len() >= peersMax }

// checkOutbox verifies the fragments whose end is not reported yet; c counts them.
func (m *Module) checkOutbox(c *checker) error {
	o := &m.outbox
	for _, l := range [...]*fragmentList{&o.ended, &o.byes} {
		if err := m.checkEnded(c, l); err != nil {
			return err
		}
	}
	if o.byes.count > 0 && !o.pulled {
		return fmt.Errorf("%d goodbyes wait for an owner that does not pull", o.byes.count)
	}
	for i, n := range o.notices.all() {
		if n.ep == nil || n.kind == CompletionSend || !o.pulled &&
			(n.kind == CompletionFlush) != (n.flushed != nil) {
			return fmt.Errorf("notice %d without endpoint, or of nothing", i)
		}
	}
	return nil
}

// checkEnded verifies a list of ended fragments that are not reported yet. A buffer that was never
// sent is given back only at the report.
func (m *Module) checkEnded(c *checker, l *fragmentList) error {
	count := 0
	for f := l.first; f != nil; f = f.next {
		if count++; f.state != fragEnded || f.out != 0 || f.ownRegion ||
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

// fifo is a first-in-first-out list; adding and taking cost the same at any length. The zero value
// is empty.
type fifo[T any] struct {
	items []T
	head  int // items before it are gone
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

// all are the items, the oldest first; they stay in the list.
func (q *fifo[T]) all() []T { return q.items[q.head:] }

func (q *fifo[T]) push(v T) { q.items = append(q.items, v) }

func (q *fifo[T]) pop() (v T, ok bool) {
	if q.head == len(q.items) {
		return v, false
	}
	var zero T
	v, q.items[q.head] = q.items[q.head], zero
	if q.head++; 2*q.head >= len(q.items) { // half of it is empty: each item moves once at most
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v, true
}
