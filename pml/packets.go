package pml

import (
	"errors"
	"fmt"

	"gobtl/btl"
)

// The bytes of an announced message that does not lie in one piece go in packets. The sender's
// Layout fills each packet, and the receiver's Layout empties it. So each byte is copied once on
// each side, and neither side has a copy of the message. A packet is a fragment of kind data:
//
//	sender:     run run run ...  --Gather--> packet  --->  packet --Scatter-->  run run run ...
//
// The receiver asks for packets (flagPackets) if its memory has a Layout. A sender whose runs are
// short chooses packets by itself, also towards contiguous memory. It may put its first bytes, and
// send the rest in packets. Packets may arrive in any order, because each names its place.

const (
	// dataHeadBytes is the head of a packet.
	dataHeadBytes = headBytes + 16
	// dataAlign divides the bytes of each packet but the last, so that numbers are not cut in two.
	dataAlign = 64
	// underBytesMax bounds the bytes that are in packets to one peer at a time. Small messages to the
	// peer wait behind these packets.
	underBytesMax = 1 << 20
	// underShare is the part of the module's send buffers that these packets may take. Small messages
	// need some, too.
	underShare = 4
)

// askForPackets tells the sender of a matched message to send the bytes in packets. It reports
// false if there are too many requests.
func (p *Peer) askForPackets(r *Request) bool {
	if !p.l.name(r) {
		return false
	}
	p.landing.remove(r)
	p.l.answer(p.ep.Now(), p, head{
		kind: kindClear, flags: flagPackets, a: r.theirs, b: r.id, d: uint64(r.Len()),
	})
	return true
}

// packetRoom returns the message's bytes in a full packet to a peer.
func (p *Peer) packetRoom() uint64 {
	room := p.ep.MTUBytes() - p.l.overhead - dataHeadBytes
	return uint64(max(room&^(dataAlign-1), dataAlign))
}

// sendPackets sends packets of a send. It reports false if no more may be under way, or if there is
// no room now.
func (l *Layer) sendPackets(now btl.Time, r *Request) bool {
	p := r.peer
	room := p.packetRoom()
	for most := max(2, min(int(underBytesMax/room), l.packetsMax)); r.moved < r.most; {
		if p.packets >= most {
			p.puts.remove(r)
			p.puts.add(r) // Others of the peer are next.
			return false
		}
		n := min(r.most-r.moved, room)
		f, err := p.ep.Alloc(l.cfg.Tag, dataHeadBytes+int(n))
		if errors.Is(err, btl.ErrAgain) {
			return false
		}
		if err != nil {
			return p.failPut(now, r, err)
		}
		h := head{kind: kindData, a: r.theirs, b: r.moved, c: r.base}
		h.put(f.Bytes())
		r.gather(f.Bytes()[dataHeadBytes:], int(r.moved))
		f.Context, f.Signal, f.OnDone = r.id, true, l.onPacket
		r.moved += n
		r.under++
		p.packets++
		l.stats.SentPacked += n
		l.give(now, p, f)
	}
	p.puts.remove(r)
	return true
}

// packetDone handles the end of a packet.
func (l *Layer) packetDone(f *btl.Fragment, err error) {
	p := l.Peer(f.Endpoint())
	p.packets--
	r, ok := l.requests.Get(f.Context)
	if !ok || r.state != moving {
		return // The send has ended.
	}
	r.under--
	switch {
	case err != nil && p.ep.Err() != nil:
		return // The event of the peer reports its end.
	case err != nil:
		l.finish(r, fmt.Errorf("%w: %w", ErrTransfer, err))
	case r.moved == r.most && r.under == 0:
		l.finish(r, nil)
	}
	l.settle()
}

// onData handles a packet of a matched message. A hostile sender may repeat a place. Then the
// receive ends although other bytes are still those that were in the caller's memory before.
func (l *Layer) onData(now btl.Time, p *Peer, h *head, data []byte) bool {
	r := l.named(p, h.a, landing)
	if r == nil || h.c != 0 && r.region == nil {
		return false
	}
	all, n := uint64(r.Len()), uint64(len(data))
	if h.b > all || n > all-h.b || h.c > h.b || r.moved > 0 && h.c != r.base {
		return false
	}
	if r.base = h.c; n > all-r.base-r.moved {
		return false // more than there is
	}
	r.scatter(data, int(h.b))
	r.moved += n
	l.stats.ReceivedUnpacked += n
	if r.moved == all-r.base {
		l.tellTaken(now, p) // with which the transport's acknowledgement goes along
		l.finish(r, r.misfit())
	}
	return true
}

// lost returns the error of a request whose peer has gone for the given reason.
func (r *Request) lost(why error) error {
	switch {
	case r.state == queued, r.state == announced && r.announced && r.size > 0:
		return fmt.Errorf("%w: %w", why, ErrUndelivered)
	case r.state == announced || r.state == moving:
		return fmt.Errorf("%w: %w", why, ErrUnknown)
	}
	return why
}
