package stream

import (
	"encoding/binary"
	"errors"

	"gobtl/btl"
)

// A control message that the transport cannot accept yet waits in its peer's queue (outbox). If the
// queue of control messages to a peer is full, the connection to the peer is closed, because the
// peer is not receiving messages. The queue of each peer has a limited size, and does not delay
// messages to the remaining peers.

// outboxMax and outboxBytesMax limit the queued control messages to a peer. For each stream and
// each kind of notice (control message with a cumulative number), the queue contains only the
// latest notice.
const (
	outboxMax      = 64
	outboxBytesMax = 64 << 10
)

// outgoing is a control message that the transport has not accepted yet.
type outgoing struct {
	tag  btl.Tag
	data []byte
}

// outbox is the queue of control messages to one peer.
type outbox struct {
	waiting []outgoing
	bytes   int
}

// send sends a control message to the peer, or queues the message if the transport cannot accept it
// yet.
func (e *Engine) send(ep *btl.Endpoint, tag btl.Tag, data []byte) {
	if ep == nil || ep.Err() != nil {
		return
	}
	o := e.outboxes[ep]
	if o == nil && e.trySend(ep, tag, data) {
		return
	}
	if o == nil {
		o = new(outbox)
		e.outboxes[ep] = o
	}
	if tag == tagNotice && o.replace(data) {
		return
	}
	if len(o.waiting) == outboxMax || o.bytes+len(data) > outboxBytesMax {
		delete(e.outboxes, ep)
		e.refused.Unread++
		ep.Abort() // onEndpoint ends the streams with this peer
		return
	}
	o.waiting = append(o.waiting, outgoing{tag, append([]byte(nil), data...)})
	o.bytes += len(data)
}

// replace overwrites a queued notice with a newer notice of the same kind and stream. The older
// notice is not needed, because the number in a notice is cumulative. If the queue contains no
// notice of the kind and stream of the new one, replace returns false.
func (o *outbox) replace(data []byte) bool {
	const same = 16 // kind and key
	for _, w := range o.waiting {
		if w.tag != tagNotice || string(w.data[:same]) != string(data[:same]) {
			continue
		}
		if binary.LittleEndian.Uint64(data[same:]) > binary.LittleEndian.Uint64(w.data[same:]) {
			copy(w.data, data)
		}
		return true
	}
	return false
}

// trySend offers a control message to the transport. The result of trySend is false if the
// transport cannot accept the control message yet, and otherwise true.
func (e *Engine) trySend(ep *btl.Endpoint, tag btl.Tag, data []byte) bool {
	f, err := ep.Alloc(tag, len(data))
	if err != nil {
		return !errors.Is(err, btl.ErrAgain) // OnEndpoint reports any other error
	}
	copy(f.Bytes(), data)
	if _, err := ep.Send(e.now, f); err != nil {
		_ = ep.Free(f)
		return !errors.Is(err, btl.ErrAgain)
	}
	return true
}

// onRoom sends queued control messages to a peer until the transport accepts no more.
func (e *Engine) onRoom(ep *btl.Endpoint) {
	o := e.outboxes[ep]
	if o == nil {
		return
	}
	n := 0
	for n < len(o.waiting) && e.trySend(ep, o.waiting[n].tag, o.waiting[n].data) {
		o.bytes -= len(o.waiting[n].data)
		n++
	}
	if o.waiting = append(o.waiting[:0], o.waiting[n:]...); len(o.waiting) == 0 {
		delete(e.outboxes, ep)
	}
}
