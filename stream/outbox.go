package stream

import (
	"encoding/binary"
	"errors"

	"gobtl/btl"
)

// Control messages for which the transport had no room wait in a queue of their peer. A peer that
// lets too many of them wait does not take what is sent to it, and its connection ends: so it costs
// a bounded amount of memory, and no other peer's messages wait behind its.

// outboxMax and outboxBytesMax bound what waits for a peer. Of a notice only the latest waits.
const (
	outboxMax      = 64
	outboxBytesMax = 64 << 10
)

// outgoing is a control message for which the transport had no room.
type outgoing struct {
	tag  btl.Tag
	data []byte
}

// outbox is what waits for one peer.
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
		ep.Abort() // whoever has a stream with it is told by onEndpoint
		return
	}
	o.waiting = append(o.waiting, outgoing{tag, append([]byte(nil), data...)})
	o.bytes += len(data)
}

// replace puts a notice in the place of one of the same kind and stream that waits: notices are
// cumulative.
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

// trySend returns false when the transport has no room now; onRoom is called when it has some.
func (e *Engine) trySend(ep *btl.Endpoint, tag btl.Tag, data []byte) bool {
	f, err := ep.Alloc(tag, len(data))
	if err != nil {
		return !errors.Is(err, btl.ErrAgain) // any other error is told to OnEndpoint
	}
	copy(f.Bytes(), data)
	if _, err := ep.Send(e.now, f); err != nil {
		_ = ep.Free(f)
		return !errors.Is(err, btl.ErrAgain)
	}
	return true
}

// onRoom sends what waits for a peer, as far as there is room.
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
