package pml

import (
	"cmp"
	"errors"
	"fmt"

	"gobtl/btl"
)

// The data of an announced message is sent in packets instead of puts if the memory of the sender
// or the receiver is not contiguous. The sender's Layout fills each packet (Gather), and the
// receiver's Layout copies the data out of each packet (Scatter). A packet is a fragment of the
// kind "data".
//
//	sender:     run run run ...  --Gather--> packet  --->  packet --Scatter-->  run run run ...
//
// The receiver requests packets instead of puts (flagPackets) if its memory has a Layout. If the
// sender's memory has a Layout whose first contiguous run is shorter than runBytesMin, the sender
// uses packets even if the receiver's memory is contiguous. The sender can send the beginning of a
// message by puts, and the rest of the message in packets. Packets can arrive in any order, because
// each packet contains its offset in the message.

const (
	// dataHeadBytes is the header size of a packet.
	dataHeadBytes = headBytes + 16
	// The data size of each packet except the last is a multiple of dataAlign, so that no number in
	// the data is split between two packets.
	dataAlign = 64
	// underBytesMax is the maximum number of unacknowledged bytes in packets to one peer. The limit
	// underBytesMax is small, because a small message to the peer waits until all earlier packets are
	// sent.
	underBytesMax = 1 << 20
	// underShare limits the packets in flight to one peer to 1/underShare of the module's send
	// buffers, so that send buffers stay free for small messages.
	underShare = 4
)

// askForPackets asks the sender of a matched message to send the data in packets instead of puts,
// and returns true. If all request ids are in use, askForPackets sends nothing and returns false.
func (p *Peer) askForPackets(r *Request) bool {
	if !p.l.requests.name(r) {
		return false
	}
	p.landing.remove(r)
	p.asks(r)
	p.l.answer(p.ep.Now(), p, head{
		kind: kindClear, flags: flagPackets, a: r.theirs, b: r.id, d: uint64(r.Len()),
	})
	return true
}

// packetRoom returns the maximum number of data bytes in one packet to the peer.
func (p *Peer) packetRoom() uint64 {
	room := min(p.ep.MTUBytes()-p.l.overhead, p.l.m.Limits().FragmentBytesMax) - dataHeadBytes
	return uint64(max(room&^(dataAlign-1), dataAlign))
}

// sendPackets sends packets with the data of a send, and returns true when all data is sent. If the
// limit on packets in flight is reached, or if the module has no free buffer, sendPackets returns
// false, and must be called again.
func (l *Layer) sendPackets(now btl.Time, r *Request) bool {
	p := r.peer
	room := p.packetRoom()
	for most := max(2, min(int(underBytesMax/room), l.packetsMax)); r.moved < r.most; {
		if p.packets >= most {
			p.puts.remove(r)
			p.puts.add(r) // the other sends to the peer are served next
			return false
		}
		n := min(r.most-r.moved, room)
		f, err := l.out.alloc(p.ep, dataHeadBytes+int(n))
		if errors.Is(err, btl.ErrAgain) {
			return false
		}
		if err != nil {
			return r.failPackets(now, err)
		}
		h := head{kind: kindData, a: r.theirs, b: r.moved, c: r.base}
		h.put(f.Bytes())
		r.gather(f.Bytes()[dataHeadBytes:], int(r.moved))
		f.Context, f.Signal, f.OnDone = r.id, true, l.onPacket
		r.moved += n
		r.under++
		p.packets++
		l.stats.SentPacked += n
		l.out.give(now, p.ep, f)
	}
	p.puts.remove(r)
	return true
}

// packetDone handles the completion of a packet at the sender.
func (l *Layer) packetDone(f *btl.Fragment, err error) {
	p := l.Peer(f.Endpoint())
	p.packets--
	r := l.requests.get(f.Context, moving)
	if r == nil {
		return // the send has ended
	}
	r.under--
	switch now := p.ep.Now(); {
	case err != nil:
		r.failPackets(now, err)
	case r.err != nil:
		r.endFailed(now)
	case r.moved == r.most && r.under == 0:
		l.finish(r, nil)
	}
	l.done.settle()
}

// failPackets ends a send with ErrTransfer because one of its packets cannot be sent, or was not
// delivered. failPackets always returns true.
func (r *Request) failPackets(now btl.Time, err error) bool {
	r.peer.puts.remove(r)       // no further packets
	if r.peer.ep.Err() == nil { // otherwise the endpoint's event ends r
		r.err = cmp.Or(r.err, fmt.Errorf("%w: %w", ErrTransfer, err))
		r.endFailed(now)
	}
	return true
}

// endFailed ends a failed send, and tells the receiver. If packets of the send are in flight,
// endFailed does nothing, because a packet that arrives after the end of its receive violates the
// protocol.
func (r *Request) endFailed(now btl.Time) {
	if r.under == 0 {
		l := r.peer.l
		l.finish(r, r.err)
		l.answer(now, r.peer, head{kind: kindFin, number: 1, a: r.theirs})
	}
}

// onData handles a received packet of a matched message, and returns true, or returns false if the
// packet violates the protocol.
func (l *Layer) onData(now btl.Time, p *Peer, h *head, data []byte) bool {
	r := l.requests.named(p, h.a, landing)
	if r == nil || h.c != 0 && r.region == nil {
		return false
	}
	all, n := uint64(r.Len()), uint64(len(data))
	if h.b > all || n > all-h.b || h.c > h.b || r.moved > 0 && h.c != r.base {
		return false
	}
	if r.base = h.c; n > all-r.base-r.moved {
		return false // more than the message has
	}
	r.scatter(data, int(h.b))
	r.moved += n
	l.stats.ReceivedUnpacked += n
	if r.moved == all-r.base {
		l.finish(r, r.misfit())
		l.tellTaken(now, p) // the transport acknowledges in the same packet
	}
	return true
}

// The method "lost" returns the error of a request that ends because the connection to the peer has
// ended. The argument "why" of the method "lost" is the reason why the connection has ended.
func (r *Request) lost(why error) error {
	switch {
	case r.state == queued, r.state == announced && r.announced && r.size > 0:
		return fmt.Errorf("%w: %w", why, ErrUndelivered)
	case r.state == announced || r.state == moving:
		return fmt.Errorf("%w: %w", why, ErrUnknown)
	}
	return why
}
