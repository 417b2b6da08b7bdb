package main

import (
	"bytes"
	"encoding/binary"
	"slices"

	"gobtl/btl"
)

const (
	tagMessage    btl.Tag = 1        // the layer's tag in the transport
	headBytes             = 12       // number of the message (4), tag (8), little-endian
	overheadBytes         = 128      // what a message costs beside its bytes
	heldMax               = 64 << 20 // bytes of a peer's messages that no receive has taken
)

// Receive is a receive that waits for a message. The layer calls Done once.
type Receive struct {
	From      *btl.Endpoint // nil: any peer
	Tag, Mask uint64        // a message fits if its tag and Tag have the same bits in Mask
	Done      func(from *btl.Endpoint, tag uint64, data []byte, err error)
}

// message is a message that no receive has taken yet.
type message struct {
	from *btl.Endpoint
	tag  uint64
	data []byte
}

// peer is the state of one connection, in Endpoint.Context.
type peer struct {
	sent, matched uint32             // messages to the peer, and from it in their order
	early         map[uint32]message // messages that overtook others, by their numbers
	heldBytes     int                // of early and unexpected messages
}

// Layer matches messages with receives. Like its module it belongs to one goroutine.
type Layer struct {
	receives   []*Receive // in the order of Recv
	unexpected []message  // in the order of arrival
}

// NewLayer puts a layer on a module that has no endpoint yet.
func NewLayer(m *btl.Module) (*Layer, error) {
	l := &Layer{}
	m.OnEndpoint(l.event)
	return l, m.Handle(tagMessage, l.arrive)
}

func peerOf(ep *btl.Endpoint) *peer {
	if ep.Context == nil {
		ep.Context = &peer{early: map[uint32]message{}}
	}
	return ep.Context.(*peer)
}

// Send sends a copy of data. After btl.ErrAgain call it again when Progress has run.
func (l *Layer) Send(now btl.Time, to *btl.Endpoint, tag uint64, data []byte) error {
	f, err := to.Alloc(tagMessage, headBytes+len(data))
	if err != nil {
		return err
	}
	p := peerOf(to)
	binary.LittleEndian.PutUint32(f.Bytes(), p.sent)
	binary.LittleEndian.PutUint64(f.Bytes()[4:], tag)
	copy(f.Bytes()[headBytes:], data)
	if _, err := to.Send(now, f); err != nil {
		_ = to.Free(f) // The fragment is still this side's.
		return err
	}
	p.sent++
	return nil
}

// Recv takes the first message that fits, now or when it comes.
func (l *Layer) Recv(r *Receive) {
	for i, m := range l.unexpected {
		if r.fits(m) {
			l.unexpected = slices.Delete(l.unexpected, i, i+1)
			take(r, m)
			return
		}
	}
	l.receives = append(l.receives, r)
}

func (r *Receive) fits(m message) bool {
	return (r.From == nil || r.From == m.from) && (r.Tag^m.tag)&r.Mask == 0
}

// take gives a message to a receive.
func take(r *Receive, m message) {
	peerOf(m.from).heldBytes -= len(m.data) + overheadBytes
	r.Done(m.from, m.tag, m.data, nil)
}

// arrive is the handler of tagMessage. It may send, and it must not wait.
func (l *Layer) arrive(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	p := peerOf(ep)
	if len(data) < headBytes || p.heldBytes > heldMax {
		ep.Abort() // The peer speaks another protocol, or sends more than this side keeps.
		return
	}
	number, tag := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint64(data[4:])
	m := message{ep, tag, bytes.Clone(data[headBytes:])} // data is valid during the call only
	p.early[number] = m
	p.heldBytes += len(m.data) + overheadBytes
	for m, ok := p.early[p.matched]; ok; m, ok = p.early[p.matched] {
		delete(p.early, p.matched)
		p.matched++
		l.match(m)
	}
}

func (l *Layer) match(m message) {
	i := slices.IndexFunc(l.receives, func(r *Receive) bool { return r.fits(m) })
	if i < 0 {
		l.unexpected = append(l.unexpected, m)
		return
	}
	r := l.receives[i]
	l.receives = slices.Delete(l.receives, i, i+1)
	take(r, m)
}

// event drops the messages of a peer that is gone, and ends the receives that wait for it alone.
func (l *Layer) event(ep *btl.Endpoint, ev btl.Event, err error) {
	if ev == btl.EventConnected {
		return
	}
	l.unexpected = slices.DeleteFunc(l.unexpected, func(m message) bool { return m.from == ep })
	var ended []*Receive
	l.receives = slices.DeleteFunc(l.receives, func(r *Receive) bool {
		if r.From == ep {
			ended = append(ended, r)
		}
		return r.From == ep
	})
	for _, r := range ended { // Done may call Recv and Send.
		r.Done(ep, 0, nil, err)
	}
}
