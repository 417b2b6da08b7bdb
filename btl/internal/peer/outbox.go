package peer

import (
	"fmt"

	"gobtl/btl/internal/share"
	"gobtl/internal/fifo"
	"gobtl/internal/words"
	"gobtl/reliability"
)

// Outbox queues notifications of ended sends, endpoint events and completed flushes for the
// application. The application receives the notifications of Outbox by callbacks, or polls for them
// with Pull. Callbacks run after Progress has updated the protocol state, so that a callback is
// allowed to call any method except Progress.
//
//	complete --> ended ----+--> btl: OnDone, OnEndpoint, functions of Flush
//	fail, Connected,       |    or
//	checkFlushed --> notices    Pull: Completions
type Outbox struct {
	*Services

	ended   fragmentList // sends whose OnDone was not called yet
	byes    fragmentList // ended Byes of the transport itself, if the application uses Pull
	notices fifo.List[Notice]

	wanting   share.Waiters[*Endpoint] // endpoints on which a call has returned ErrAgain
	tellsRoom bool                     // the application wants a notification after ErrAgain

	Pulled bool // the application polls with Pull, and no callback is called
}

// NoteKind is the kind of a Notice.
type NoteKind uint8

// The kinds of notices. NoteSend stands for an ended send, for which Outbox queues the fragment
// instead of a Notice.
const (
	NoteSend NoteKind = iota
	NoteFlush
	NoteEvent
	NoteRoom
)

// Event is a change of an endpoint's connection.
type Event uint8

// The events of an endpoint.
const (
	EventConnected Event = iota // the handshake is done
	EventClosed                 // closed normally, by this side (err nil) or the peer (ErrPeerClosed)
	EventFailed                 // the connection has failed with the error err
)

// Notice is a queued notification of an endpoint event, of the end of a flush, or of the fact that
// resources are free again after ErrAgain.
type Notice struct {
	Ep      *Endpoint
	Err     error
	Flushed func(error) // of a flush
	Event   Event       // of CompletionEvent
	Kind    NoteKind
}

var noteWords = [...]string{
	NoteSend: "send", NoteFlush: "flush", NoteEvent: "event", NoteRoom: "room",
}

// String returns the name of the kind of notice.
func (k NoteKind) String() string { return words.Name(noteWords[:], int(k), "CompletionKind") }

var eventWords = [...]string{
	EventConnected: "connected", EventClosed: "closed", EventFailed: "failed",
}

// String returns the name of the event.
func (e Event) String() string { return words.Name(eventWords[:], int(e), "Event") }

// push queues the notification that the send of fragment f has ended.
func (ob *Outbox) push(f *Fragment) {
	if ob.Pulled && f.isBye() {
		ob.byes.push(f)
		return
	}
	ob.ended.push(f)
}

// note queues a notification of an endpoint event.
func (ob *Outbox) note(ep *Endpoint, ev Event, err error) {
	ob.notices.Push(Notice{Ep: ep, Kind: NoteEvent, Event: ev, Err: err})
}

// noteFlush queues the notification that a flush has completed. The argument fn of noteFlush is the
// function that was passed to Flush.
func (ob *Outbox) noteFlush(ep *Endpoint, fn func(error), err error) {
	ob.notices.Push(Notice{Ep: ep, Kind: NoteFlush, Flushed: fn, Err: err})
}

// TellRoom sets whether the application is notified when a call that has returned ErrAgain can
// succeed.
func (ob *Outbox) TellRoom(on bool) { ob.tellsRoom = on }

// Pull sets whether the application polls for notifications instead of receiving callbacks.
func (ob *Outbox) Pull(on bool) {
	ob.Pulled = on
	ob.Rest.Stir()
	for _, l := range [...]*fragmentList{&ob.ended, &ob.byes} { // the mode decides the list of a Bye
		for range l.count {
			ob.push(l.pop())
		}
	}
}

// EndByes ends the endpoints whose Byes were acknowledged or could not be sent. btl calls EndByes
// if the application polls for notifications (Pull).
func (ob *Outbox) EndByes() {
	for f := ob.byes.pop(); f != nil; f = ob.byes.pop() {
		ob.Endings.byeDone(f.Ep)
	}
}

// NextEnded removes and returns the fragment whose send ended first, or nil if no ended fragment is
// queued. The caller must free the returned fragment by Descriptors.FreeFrag.
func (ob *Outbox) NextEnded() *Fragment {
	for f := ob.ended.pop(); f != nil; f = ob.ended.pop() {
		if !f.isBye() {
			return f
		}
		ob.Endings.byeDone(f.Ep) // the descriptor of a Bye is not from the pool
	}
	return nil
}

// NextNotice removes and returns the oldest notice, and reports whether there was a notice.
func (ob *Outbox) NextNotice() (Notice, bool) { return ob.notices.Pop() }

// ToPull reports whether notifications are queued for an application that polls for them.
func (ob *Outbox) ToPull() bool {
	return ob.Pulled && (ob.ended.first != nil || ob.notices.Len() > 0)
}

// Due reports whether Progress has callbacks to run.
func (ob *Outbox) Due() bool {
	if ob.Pulled {
		return ob.byes.first != nil
	}
	return ob.ended.first != nil || ob.notices.Len() > 0
}

func (ob *Outbox) full(peersMax int) bool { return ob.Pulled && ob.notices.Len() >= peersMax }

func (c *Checker) checkOutbox(all *Services) error {
	o := &all.Outbox
	for _, l := range [...]*fragmentList{&o.ended, &o.byes} {
		if err := c.checkEnded(all, l); err != nil {
			return err
		}
	}
	if o.byes.count > 0 && !o.Pulled {
		return fmt.Errorf("%d goodbyes wait for an owner that does not pull", o.byes.count)
	}
	for i, n := range o.notices.All() {
		if n.Ep == nil || n.Kind == NoteSend || !o.Pulled &&
			(n.Kind == NoteFlush) != (n.Flushed != nil) {
			return fmt.Errorf("notice %d without endpoint, or of nothing", i)
		}
	}
	return nil
}

func (c *Checker) checkEnded(all *Services, l *fragmentList) error {
	count := 0
	for f := l.first; f != nil; f = f.next {
		if count++; f.state != fragEnded || f.out != 0 || f.Data.Registered() ||
			count > l.count {
			return fmt.Errorf("fragment in state %d with %d packets in flight has ended", f.state, f.out)
		}
		if !f.isBye() {
			c.frags[fragEnded]++
		}
		if !f.hasSeg {
			continue
		}
		if c.places[f.seg] != placeNone || all.Recovery.State(f.seg) != reliability.Free {
			return fmt.Errorf("send buffer %d of a fragment that has ended is %v, %v", f.seg,
				c.places[f.seg], all.Recovery.State(f.seg))
		}
		c.places[f.seg] = placeEnded
		if all.Peers.Holds(f.Ep) {
			c.held[f.Ep.ID.Slot()]++
		}
	}
	if count != l.count {
		return fmt.Errorf("%d fragments have ended, %d counted", count, l.count)
	}
	return nil
}
