package btl

import (
	"gobtl/btl/internal/peer"
)

// callOut delivers all queued notifications, by calls of OnDone and of the functions given to
// OnEndpoint, OnRoom and Flush.
func (m *Module) callOut() {
	o := &m.all.Outbox
	if !o.Due() { // the usual case; popping from an empty list would copy a whole notice
		return
	}
	o.EndByes()
	for !o.Pulled {
		if c := o.NextEnded(); c != nil {
			m.finish(c)
			continue
		}
		n, ok := o.NextNotice()
		switch {
		case !ok:
			return
		case n.Kind == peer.NoteRoom:
			if m.onRoom != nil {
				m.onRoom(endpointOf(n.Ep))
			}
		case n.Kind == peer.NoteFlush:
			if n.Flushed != nil { // nil if the flush was requested while the application used Pull
				n.Flushed(n.Err)
			}
		case m.onEvent != nil:
			m.onEvent(endpointOf(n.Ep), Event(n.Event), n.Err)
		}
	}
}

// The method "finish" calls the fragment's OnDone and frees the descriptor.
func (m *Module) finish(c *peer.Fragment) {
	f, _ := c.Owner.(*Fragment)
	if f.OnDone != nil {
		f.OnDone(f, c.Err)
	}
	f.clear()
	m.all.Frags.FreeFrag(c)
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

// Completion is a notification that Pull returns if the application polls instead of using
// callbacks.
type Completion struct {
	Endpoint *Endpoint
	Err      error          // nil if a send or flush is acknowledged; of an event as for OnEndpoint
	Context  uint64         // of a send: Fragment.Context
	Kind     CompletionKind // the kind of notification
	Event    Event          // of CompletionEvent
}

// PullCompletions selects whether Pull or callbacks report ended sends, endpoint events and
// flushes. After PullCompletions(true) the application polls for notifications with Pull. After
// PullCompletions(false), the default, Progress calls OnDone, OnEndpoint and the functions given to
// Flush. PullCompletions does not affect message handlers, which Progress always calls.
// PullCompletions must be called before the first Connect. A module that a Runner drives must use
// callbacks.
//
// The descriptor of a send is freed only when Pull has returned the send's completion, so
// FragmentsMax limits the number of sends whose completions are unread. No peer can connect while
// PeersMax endpoint events wait for Pull.
func (m *Module) PullCompletions(on bool) { m.all.Outbox.Pull(on) }

// Pull fills buf with completions that no earlier call of Pull has returned. Pull returns
// completions of sends before those of events and flushes. Pull returns the number of completions
// in buf, which is less than len(buf) only if the queue of completions is empty afterwards. Pull
// may be called in a handler, and after Close.
func (m *Module) Pull(buf []Completion) int {
	o := &m.all.Outbox
	if !o.Pulled {
		return 0
	}
	m.all.Rest.Stir()
	for i := range buf {
		if c := o.NextEnded(); c != nil {
			f, _ := c.Owner.(*Fragment)
			buf[i] = Completion{Endpoint: endpointOf(c.Ep), Err: c.Err, Context: f.Context}
			f.clear()
			m.all.Frags.FreeFrag(c)
			continue
		}
		n, ok := o.NextNotice()
		if !ok {
			return i
		}
		buf[i] = Completion{
			Endpoint: endpointOf(n.Ep), Err: n.Err, Kind: CompletionKind(n.Kind), Event: Event(n.Event),
		}
	}
	return len(buf)
}

// OnRoom registers the function fn, which Progress calls when a call that has returned ErrAgain
// should be repeated. If calls for an endpoint have returned ErrAgain, the function given to OnRoom
// is called once for the endpoint, as soon as a repeated call might succeed. If the repeated call
// returns ErrAgain once more, because too few resources are free, the function given to OnRoom is
// called again later. An application that uses Pull (PullCompletions) gets a CompletionRoom instead
// of a call of a function given to OnRoom. For ended endpoints, the function given to OnRoom is not
// called.
func (m *Module) OnRoom(fn func(ep *Endpoint)) {
	m.onRoom = fn
	m.all.Outbox.TellRoom(fn != nil)
}
