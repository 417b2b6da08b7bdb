package pml

import (
	"fmt"

	"gobtl/btl"
)

// headerMost is the largest length of an active message's header, in bytes.
const headerMost = 4 << 10

// Handler is a function that handles the active messages with one id (see HandleActive). Progress
// calls the Handler for each message, in the order of sending. A Handler can send a reply to
// m.Peer. A Handler is allowed to send and receive, but must not call Progress. The message m of a
// Handler is valid until the Handler returns, or longer if the Handler calls Keep for m. An
// announced message (see Announced) stays valid until it is received with RecvMessage or dropped
// with Drop. The send of an announced message ends only when the message is received or dropped.
type Handler func(now btl.Time, m *Message)

// The type "handlers" is a table of the handlers of active messages, with one array for each upper
// byte of an id. The array of an upper byte is allocated when its first handler is set, so that a
// Layer with few handlers needs little memory.
type handlers [256]*[256]Handler

// The method "set" sets the handler of an id, or removes the handler if fn is nil.
func (s *handlers) set(id uint16, fn Handler) {
	half := &s[id>>8]
	if *half == nil {
		*half = new([256]Handler)
	}
	(*half)[id&0xff] = fn
}

// The method "get" returns the handler of an id, or nil if the id has no handler.
func (s *handlers) get(id uint16) Handler {
	if half := s[id>>8]; half != nil {
		return half[id&0xff]
	}
	return nil
}

// HandleActive sets the handler fn of the active messages with the given id, or removes the handler
// if fn is nil. Active messages without a handler are dropped. If an announced message is dropped
// for lack of a handler, its send ends with ErrNoHandler. If an eager message is dropped for lack
// of a handler, its send ends without an error.
func (l *Layer) HandleActive(id uint16, fn Handler) {
	l.handlers.set(id, fn)
}

// HeaderMax returns the maximum length of a header for SendActive, in bytes. The result of
// HeaderMax is the smallest of 4 KiB, half of Config.UnexpectedBytes, and the length that fits into
// the module's largest fragment.
func (l *Layer) HeaderMax() int {
	return max(0, min(headerMost, l.cfg.UnexpectedBytes/2, l.m.Limits().FragmentBytesMax-headMostSize))
}

// SendActive begins to send an active message with a header and data to the handler that the peer
// has set for the id. The caller must not change the header or the data until the request r is
// Done. The request r might be Done before SendActive returns. If the request r has a Layout, the
// argument "data" must be nil. The peer handles active messages and messages of Send in the order
// in which they were sent, and counts both towards its limits on unexpected messages. If a message
// is longer than Config.EagerBytes, or would exceed the peer's limits on unexpected messages,
// SendActive at first sends only the header of the message (announcement). In the modes Synchronous
// and Announce, SendActive always announces the message. A synchronous or announced send is Done
// when the peer has received or dropped the message. For active messages, the mode Ready has the
// same effect as the mode Standard. The argument "now" of SendActive is the current time. The error
// of SendActive is ErrBusy, ErrHeader, ErrEager, or ErrPeer if the connection to the peer has
// ended. The method r.Err returns errors that occur later, such as ErrNoHandler.
func (l *Layer) SendActive(
	now btl.Time, r *Request, to *Peer, id uint16, header, data []byte, mode Mode,
) error {
	switch {
	case r.state != idle:
		return ErrBusy
	case len(header) > l.HeaderMax():
		return fmt.Errorf("%w: %d bytes, at most %d", ErrHeader, len(header), l.HeaderMax())
	case to.err != nil:
		return to.err
	}
	if mode == Ready {
		mode = Standard
	}
	r.mem = data
	if err := l.cfg.mayLeave(len(header)+r.room(), mode); err != nil {
		return err
	}
	r.repeat, r.state, r.mode, r.peer, r.from = never, queued, active|mode, to, nil
	r.tag, r.header, r.err = uint64(id), header, nil
	l.begin(now, r, to)
	return nil
}

// Header returns the header of an active message. The result of Header is valid as long as the
// message is valid.
func (m *Message) Header() []byte { return m.data[:m.head:m.head] }

// Data returns the data of an active message that has arrived completely. For an announced message,
// Data returns nil. The result of Data is valid as long as the message is valid.
func (m *Message) Data() []byte {
	if !m.eager {
		return nil
	}
	return m.data[m.head:]
}

// Announced reports whether only the header of the message has arrived, while the data is still at
// the sender.
func (m *Message) Announced() bool { return !m.eager }

// Keep extends the validity of an active message beyond the return of its handler, until the
// message is received or dropped. After a call of Keep, the message counts towards the limits on
// unexpected messages from its sender until it is received or dropped. Keep must be called only in
// the handler of the message. Keep copies the data of a message that has arrived completely. For an
// announced message, Keep is not needed.
func (l *Layer) Keep(m *Message) {
	if !m.eager || m.kept || m.gone {
		return
	}
	l.memory.own(m)
	m.kept = true
	l.probed.add(m)
}

// Drop discards the message m, which must be a message that Progress has passed to a Handler, or
// that MProbe has returned. RecvMessage cannot receive a discarded message. After Drop, the caller
// must not use the data of the message. The send of a dropped message ends as if the message had
// been received. The argument "now" of Drop is the current time. If the message was already
// received or dropped, Drop returns ErrMessage.
func (l *Layer) Drop(now btl.Time, m *Message) error {
	if m.gone {
		return ErrMessage
	}
	l.probed.remove(m)
	l.drop(now, m)
	l.memory.spend(m)
	l.done.settle()
	return nil
}

// deliverNew passes an active message that has just arrived to its handler. The slice "data"
// belongs to the transport.
func (l *Layer) deliverNew(now btl.Time, m *Message, data []byte) {
	if !m.eager {
		l.deliver(now, l.memory.keep(m, data))
		return
	}
	l.deliver(now, l.memory.lend(m, data))
}

func (l *Layer) deliver(now btl.Time, m *Message) {
	handle := l.handlers.get(uint16(m.tag))
	if handle == nil {
		l.stats.Unhandled++
		l.took(now, m.peer, m.cost())
		if !m.eager {
			l.answer(now, m.peer, head{kind: kindClear, number: 1, a: m.id})
		}
		l.memory.release(m)
		return
	}
	if !m.eager {
		m.kept = true
		l.probed.add(m)
	}
	handle(now, m)
	if m.kept {
		return
	}
	if !m.gone {
		l.took(now, m.peer, m.cost())
	}
	l.memory.release(m)
}
