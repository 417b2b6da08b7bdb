package peer

import (
	"fmt"

	"gobtl/btl/internal/setting"
	"gobtl/internal/fifo"
	"gobtl/reliability"
)

// Outbox holds notifications of ended sends, endpoint events and completed flushes for the
// application. The application receives the notifications by callbacks, or polls for them with
// Pull. Callbacks run after Progress has updated the protocol state, so a callback may call any
// method except Progress.
//
//	complete --> ended ----+--> btl: OnDone, OnEndpoint, functions of Flush
//	fail, establish,       |    or
//	checkFlushed --> notices    Pull: Completions
type Outbox struct {
	*Services

	Ended   FragmentList // sends whose OnDone was not called yet
	Byes    FragmentList // ended Byes of the transport itself, if the application uses Pull
	Notices fifo.List[Notice]

	Wanting   []*Endpoint // endpoints whose caller got ErrAgain and waits for room
	tellsRoom bool        // a function waits for room

	Pulled bool // the application polls with Pull, and no callback is called
}

// NoteKind is the kind of a Notice.
type NoteKind uint8

// The kinds of notices. The first kind is that of an ended send, which is no Notice.
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

// Notice is a queued notification of an endpoint event, of the end of a flush, or of free resources
// after ErrAgain.
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

// String returns the name of the kind.
func (k NoteKind) String() string { return setting.Word(noteWords[:], int(k), "CompletionKind") }

var eventWords = [...]string{
	EventConnected: "connected", EventClosed: "closed", EventFailed: "failed",
}

// String returns the name of the event.
func (e Event) String() string { return setting.Word(eventWords[:], int(e), "Event") }

// Push queues the notification that the send of fragment f has ended.
func (ob *Outbox) Push(f *Fragment) {
	if ob.Pulled && f.IsBye() {
		ob.Byes.push(f)
		return
	}
	ob.Ended.push(f)
}

// Note queues a notification of an endpoint event.
func (ob *Outbox) Note(ep *Endpoint, ev Event, err error) {
	ob.Notices.Push(Notice{Ep: ep, Kind: NoteEvent, Event: ev, Err: err})
}

// noteFlush queues the notification that a flush has completed, where fn is the function given to
// Flush.
func (ob *Outbox) noteFlush(ep *Endpoint, fn func(error), err error) {
	ob.Notices.Push(Notice{Ep: ep, Kind: NoteFlush, Flushed: fn, Err: err})
}

// TellRoom sets whether the owner has a function to be called when a call that returned ErrAgain
// can be repeated.
func (ob *Outbox) TellRoom(on bool) { ob.tellsRoom = on }

// Pull sets whether the owner pulls notifications instead of getting callbacks.
func (ob *Outbox) Pull(on bool) {
	ob.Pulled = on
	ob.Rest.Stir()
	for _, l := range [...]*FragmentList{&ob.Ended, &ob.Byes} { // the mode decides the list of a Bye
		for range l.Count {
			ob.Push(l.Pop())
		}
	}
}

// EndByes ends the endpoints whose Byes have ended, if the owner pulls notifications.
func (ob *Outbox) EndByes() {
	for f := ob.Byes.Pop(); f != nil; f = ob.Byes.Pop() {
		ob.Endings.ByeDone(f.Ep)
	}
}

// NextEnded removes the oldest ended fragment, or returns nil. The caller frees the fragment
// (Descriptors.FreeFrag).
func (ob *Outbox) NextEnded() *Fragment {
	for f := ob.Ended.Pop(); f != nil; f = ob.Ended.Pop() {
		if !f.IsBye() {
			return f
		}
		ob.Endings.ByeDone(f.Ep) // the descriptor of a Bye is not from the pool
	}
	return nil
}

// NextNotice removes the oldest notice. NextNotice returns false if there is none.
func (ob *Outbox) NextNotice() (Notice, bool) { return ob.Notices.Pop() }

// ToPull reports whether the owner has notifications to pull.
func (ob *Outbox) ToPull() bool {
	return ob.Pulled && (ob.Ended.First != nil || ob.Notices.Len() > 0)
}

// Due reports whether Progress has callbacks to run.
func (ob *Outbox) Due() bool {
	if ob.Pulled {
		return ob.Byes.First != nil
	}
	return ob.Ended.First != nil || ob.Notices.Len() > 0
}

func (ob *Outbox) full(peersMax int) bool { return ob.Pulled && ob.Notices.Len() >= peersMax }

func (c *Checker) checkOutbox(all *Services) error {
	o := &all.Outbox
	for _, l := range [...]*FragmentList{&o.Ended, &o.Byes} {
		if err := c.checkEnded(all, l); err != nil {
			return err
		}
	}
	if o.Byes.Count > 0 && !o.Pulled {
		return fmt.Errorf("%d goodbyes wait for an owner that does not pull", o.Byes.Count)
	}
	for i, n := range o.Notices.All() {
		if n.Ep == nil || n.Kind == NoteSend || !o.Pulled &&
			(n.Kind == NoteFlush) != (n.Flushed != nil) {
			return fmt.Errorf("notice %d without endpoint, or of nothing", i)
		}
	}
	return nil
}

func (c *Checker) checkEnded(all *Services, l *FragmentList) error {
	count := 0
	for f := l.First; f != nil; f = f.Next {
		if count++; f.State != fragEnded || f.Out != 0 || f.Data.Registered() ||
			count > l.Count {
			return fmt.Errorf("fragment in state %d with %d packets in flight has ended", f.State, f.Out)
		}
		if !f.IsBye() {
			c.frags[fragEnded]++
		}
		if !f.hasSeg {
			continue
		}
		if c.places[f.Seg] != placeNone || all.Recovery.State(f.Seg) != reliability.Free {
			return fmt.Errorf("send buffer %d of a fragment that has ended is %v, %v", f.Seg,
				c.places[f.Seg], all.Recovery.State(f.Seg))
		}
		c.places[f.Seg] = placeEnded
		if all.Peers.Holds(f.Ep) {
			c.held[f.Ep.ID.Slot]++
		}
	}
	if count != l.Count {
		return fmt.Errorf("%d fragments have ended, %d counted", count, l.Count)
	}
	return nil
}
