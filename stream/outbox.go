package stream

import (
	"encoding/binary"
	"errors"

	"gobtl/btl"
)

// Control messages for which the transport has no room wait in a queue of their peer. If too many
// of them wait, the peer does not receive its messages, and its connection is ended. So each peer
// uses a bounded amount of memory, and does not delay the messages of other peers.

// outboxMax and outboxBytesMax bound the queued messages of a peer. Of the notices of one kind and
// stream only the latest is queued.
const (
	outboxMax      = 64
	outboxBytesMax = 64 << 10
)

// outgoing is a control message for which the transport had no room.
type outgoing struct {
	tag  btl.Tag
	data []byte
}

// outbox is the queue of one peer.
type outbox struct {
	waiting []outgoing
	bytes   int
}

// send sends a control message, now or when there is room.
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
		ep.Abort() // onEndpoint tells the streams with this peer
		return
	}
	o.waiting = append(o.waiting, outgoing{tag, append([]byte(nil), data...)})
	o.bytes += len(data)
}

// replace replaces a queued notice of the same kind and stream, because notices are cumulative.
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

// trySend returns false if the transport has no room now. onRoom is called when there is room
// again.
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

// onRoom sends the queued messages of a peer, as far as there is room.
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
