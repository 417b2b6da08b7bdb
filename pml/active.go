package pml

import (
	"fmt"

	"gobtl/btl"
)

// headerMost is the longest header of an active message, in bytes.
const headerMost = 4 << 10

// Handler handles the active messages with its id. Progress calls it, in the order of sending. It
// can reply to m.Peer. It may send and receive, but must not call Progress. m is valid until the
// handler returns, or longer if the handler calls Keep. An announced message (Announced) stays
// valid until it is received (RecvMessage) or dropped (Drop), now or at any later time. Its sender
// waits until then.
type Handler func(now btl.Time, m *Message)

// HandleActive sets the handler of the active messages with an id; nil removes it. Messages without
// a handler are dropped. The sender of an announced message then gets ErrNoHandler; the sender of
// any other message gets no error.
func (l *Layer) HandleActive(id uint16, fn Handler) {
	half := &l.actives[id>>8]
	if *half == nil {
		*half = new([256]Handler)
	}
	(*half)[id&0xff] = fn
}

// HeaderMax returns the length of the longest header that SendActive accepts, in bytes: the least
// of 4 KiB, half of Config.UnexpectedBytes, and the largest fragment that the module can send at
// once.
func (l *Layer) HeaderMax() int {
	return max(0, min(headerMost, l.cfg.UnexpectedBytes/2, l.m.Limits().FragmentBytesMax-headMostSize))
}

// SendActive begins to send an active message, with a header and data, to the handler that the peer
// has for the id. Both must not change until r is Done, which may be before SendActive returns. r's
// Layout may replace data. Active and other messages to a peer arrive in the order of sending, and
// share the room at the peer. A message that is longer than Config.EagerBytes, or for which the
// peer has no room, is only announced, with its header. A Synchronous message is always announced;
// it is Done when the receiving side has received or dropped it. Announce has the same effect,
// and Ready that of Standard. now is the present instant. Errors: ErrBusy, ErrHeader, ErrEager, or
// ErrPeer if the peer is gone. Later errors, such as ErrNoHandler, are in the request's Err.
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

// Header is the header of an active message. It is valid as long as the message is.
func (m *Message) Header() []byte { return m.data[:m.head:m.head] }

// Data returns the bytes of an active message that has arrived completely, or nil if the message
// was announced. The bytes are valid as long as the message.
func (m *Message) Data() []byte {
	if !m.eager {
		return nil
	}
	return m.data[m.head:]
}

// Announced reports whether the bytes of a message are still at its sender.
func (m *Message) Announced() bool { return !m.eager }

// Keep makes an active message stay valid after its handler returns, until it is received or
// dropped. Until then its sender has less room here. Only the message's handler may call it. A
// message that has arrived completely is copied once. An announced message stays valid without
// Keep.
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

// Drop ends a message that was passed to a handler of active messages, or returned by MProbe. Its
// data is no longer valid, and its send ends as if the message had been received. now is the
// present instant. Errors: ErrMessage if it was received or dropped before.
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

// handler returns the handler of an id, or nil if there is none.
func (l *Layer) handler(id uint16) Handler {
	if half := l.actives[id>>8]; half != nil {
		return half[id&0xff]
	}
	return nil
}

// deliverNew passes an active message that has just arrived to its handler.
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

// deliver passes an active message on the heap to its handler.
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

// recycle frees an active message that is no longer in use.
func (l *Layer) recycle(m *Message) {
	l.spend(m)
	l.memory.free(m)
}
