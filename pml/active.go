package pml

import (
	"fmt"

	"gobtl/btl"
)

// headerMost is the longest header of an active message, in bytes.
const headerMost = 4 << 10

// Handler is given each active message with its id, in the order of sending, by Progress. Who it
// replies to is m.Peer. It may send and receive, but not call Progress. m is valid until the
// handler returns, unless Keep says otherwise; one that was announced (Announced) stays until
// somebody receives it (RecvMessage), into a place that may be named now or at any time later, or
// drops it (Drop). Its sender waits until then.
type Handler func(now btl.Time, m *Message)

// HandleActive sets who is given active messages with an id; nil is nobody. Messages for which
// there is nobody are dropped: the sender of an announced one has ErrNoHandler, that of another
// one never knows.
func (l *Layer) HandleActive(id uint16, fn Handler) {
	half := &l.actives[id>>8]
	if *half == nil {
		*half = new([256]Handler)
	}
	(*half)[id&0xff] = fn
}

// HeaderMax is the longest header that SendActive takes, in bytes: 4 KiB, or half of
// Config.UnexpectedBytes, or what the module can send at once, whichever is less.
func (l *Layer) HeaderMax() int {
	return max(0, min(headerMost, l.cfg.UnexpectedBytes/2, l.m.Limits().FragmentBytesMax-headMostSize))
}

// SendActive begins to send an active message, with a header and data, to the handler that the
// peer has for the id. Both must not change until r is Done, which it may be when SendActive
// returns; r's Layout may take the place of data. Active messages and others to a peer arrive in
// the order in which they were sent, and share its room. What is longer than Config.EagerBytes, or
// finds no room at the peer, is only announced, with its header; so is all that is Synchronous,
// which is Done when the handler's side has received or dropped it. Ready is as Standard. now is
// the present instant. Errors: ErrBusy, ErrHeader, or ErrPeer when the peer is gone; what happens
// later is the request's Err, ErrNoHandler among it.
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
	r.repeat, r.state, r.mode, r.peer, r.from = never, queued, active|mode, to, nil
	r.tag, r.header, r.mem, r.err = uint64(id), header, data, nil
	l.begin(now, r, to)
	return nil
}

// Header is the header of an active message. It is valid as long as the message is.
func (m *Message) Header() []byte { return m.data[:m.head:m.head] }

// Data are the bytes of an active message that has come whole; nil if it was announced. They are
// valid as long as the message is.
func (m *Message) Data() []byte {
	if !m.eager {
		return nil
	}
	return m.data[m.head:]
}

// Announced says whether the bytes of a message are with its sender still.
func (m *Message) Announced() bool { return !m.eager }

// Keep has an active message stay valid when its handler returns, until it is received or dropped:
// its sender has less room here until then. Only its handler may call it. What has come whole is
// copied once; an announced one stays in any case.
func (l *Layer) Keep(m *Message) {
	if !m.eager || m.kept || m.gone {
		return
	}
	if m.lent {
		lent := m.data
		m.data, m.lent = nil, false
		if len(lent) > 0 {
			m.data = append(l.memory.take(len(lent))[:0], lent...)
		}
		l.stats.UnexpectedBytes += len(lent)
	}
	m.kept = true
	l.probed.add(m)
}

// Drop ends a message that a handler of active messages was given, or that MProbe took out: its
// data is not valid any more, and its send ends as if it had been received. now is the present
// instant. Errors: ErrMessage if it was received or dropped before.
func (l *Layer) Drop(now btl.Time, m *Message) error {
	if m.gone {
		return ErrMessage
	}
	l.probed.remove(m)
	l.drop(now, m)
	l.spend(m)
	l.settle()
	return nil
}

// handler is that of an id, nil if there is none.
func (l *Layer) handler(id uint16) Handler {
	if half := l.actives[id>>8]; half != nil {
		return half[id&0xff]
	}
	return nil
}

// deliverNew gives an active message that has just come to its handler.
func (l *Layer) deliverNew(now btl.Time, m *Message, data []byte) {
	if !m.eager {
		l.deliver(now, l.keep(m, data))
		return
	}
	lent := l.memory.get(0)
	*lent = *m
	lent.data, lent.lent = data, true
	l.deliver(now, lent)
}

// deliver gives an active message, which is not on the stack, to its handler.
func (l *Layer) deliver(now btl.Time, m *Message) {
	handle := l.handler(uint16(m.tag))
	if handle == nil {
		l.stats.Unhandled++
		l.took(now, m.peer, m.cost())
		if !m.eager {
			l.answer(now, m.peer, head{kind: kindClear, number: 1, a: m.id})
		}
		l.recycle(m)
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
	l.recycle(m)
}

// recycle gives back an active message that nobody has.
func (l *Layer) recycle(m *Message) {
	l.spend(m)
	l.memory.free(m)
}
