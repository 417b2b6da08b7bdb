package pml

import (
	"errors"
	"fmt"

	"gobtl/btl"
)

// Send begins to send a message to a peer. The caller must not change the slice "data" until r is
// Done. The request r might be Done before Send returns. Messages to a peer are matched in the
// order of the calls of Send. The argument "now" of Send is the current time. The error of Send is
// ErrBusy, ErrEager, or ErrPeer if the connection to the peer has ended. The method r.Err returns
// errors that occur later.
func (l *Layer) Send(now btl.Time, r *Request, to *Peer, tag uint64, data []byte, mode Mode) error {
	if r.state != idle {
		return ErrBusy
	}
	r.repeat = never
	if (mode == Standard || mode == Eager) && l.quick(now, r, to, tag, data) {
		return nil
	}
	return l.send(now, r, to, tag, data, mode)
}

// TrySend sends a small message without a request and returns true, but only if the message can be
// sent immediately. If TrySend returns false, it has sent nothing, and the caller must call Send,
// which queues the message or returns the error.
func (l *Layer) TrySend(now btl.Time, to *Peer, tag uint64, data []byte) bool {
	cost := uint64(len(data)) + messageOverhead
	if len(data) > min(tinyMost, l.cfg.EagerBytes) || to.err != nil || to.sends.first != nil ||
		!to.credit.mayName() || !to.credit.mayKeep(cost) {
		return false
	}
	if !l.out.sendEager(now, to.ep, to.credit.next, tag, data) {
		return false
	}
	to.credit.spend(cost)
	l.stats.SentEager++
	return true
}

// The method "quick" sends a message like Send, but only if TrySend can send the message
// immediately, and reports whether it has sent the message.
func (l *Layer) quick(now btl.Time, r *Request, to *Peer, tag uint64, data []byte) bool {
	if r.Layout != nil || !l.TrySend(now, to, tag, data) {
		return false
	}
	r.mode, r.peer, r.from, r.tag, r.mem, r.header, r.err = Standard, to, nil, tag, data, nil, nil
	r.size, r.announced = uint64(len(data)), false
	l.done.tell(r)
	return true
}

// The method "send" performs Send for a request that is not in use.
func (l *Layer) send(now btl.Time, r *Request, to *Peer, tag uint64, data []byte, mode Mode) error {
	if to.err != nil {
		return to.err
	}
	r.mem = data
	if err := l.cfg.mayLeave(r.room(), mode); err != nil {
		return err
	}
	r.state, r.mode, r.peer, r.from = queued, mode, to, nil
	r.tag, r.header, r.err = tag, nil, nil
	l.begin(now, r, to)
	return nil
}

// The method "begin" of a Layer sends a message, or queues the message behind earlier messages to
// the peer.
func (l *Layer) begin(now btl.Time, r *Request, to *Peer) {
	r.size, r.moved, r.under, r.base, r.id = uint64(r.room()), 0, 0, 0, 0
	r.packets = false
	if to.sends.first != nil || !l.sendEnvelope(now, r) {
		to.sends.add(r)
		l.busy.add(to)
	}
	if r.state != over {
		to.active.add(r)
	}
	l.done.settle()
}

// sendEnvelope sends the first fragment of a message, and reports whether it has been sent. An
// eager message has only one fragment. If the module has no free buffer, or if the peer's limits on
// unexpected messages are reached, sendEnvelope sends nothing and returns false.
func (l *Layer) sendEnvelope(now btl.Time, r *Request) bool {
	p := r.peer
	if !p.credit.mayName() {
		return false
	}
	payload := len(r.header) + int(r.size)
	cost := uint64(payload) + messageOverhead
	mode := r.mode &^ active
	eager := payload <= l.cfg.EagerBytes && r.mode != active|Synchronous && mode != Announce &&
		p.credit.mayKeep(cost)
	if !eager {
		if mode == Eager {
			return false // wait until the peer's limits allow it
		}
		payload, cost = len(r.header), uint64(len(r.header))
		if !p.credit.mayKeep(cost) {
			return false
		}
	}
	h := r.envelope(eager)
	known := !eager || r.mode == Synchronous
	if !known && payload <= tinyMost && r.Layout == nil &&
		l.out.sendTiny(now, p.ep, &h, r.header, r.mem) {
		l.sent(r, eager, cost)
		l.finish(r, nil)
		return true
	}
	f, err := l.out.alloc(p.ep, h.bytes()+payload)
	if errors.Is(err, btl.ErrAgain) {
		return false
	}
	if err != nil {
		if p.ep.Err() == nil { // otherwise the endpoint's event ends r
			l.finish(r, err)
		}
		return true
	}
	if known && !l.requests.name(r) {
		_ = p.ep.Free(f) // the fragment was never sent
		return false
	}
	h.b = r.id
	h.put(f.Bytes())
	rest := f.Bytes()[h.bytes():]
	if rest = rest[copy(rest, r.header):]; eager {
		r.gather(rest, 0)
	}
	l.sent(r, eager, cost)
	l.out.give(now, p.ep, f)
	if r.state = announced; !known {
		l.finish(r, nil)
	}
	return true
}

func (r *Request) envelope(eager bool) head {
	h := head{kind: kindAnnounce, number: r.peer.credit.next, a: r.tag, c: r.size}
	if eager {
		h.kind = kindEager
	}
	switch {
	case r.mode&active != 0:
		h.id, h.a = uint16(r.tag), uint64(len(r.header))
		h.kind += kindActive - kindEager
	case r.mode == Synchronous:
		h.flags = flagSync
	case r.mode == Ready:
		h.flags = flagReady
	}
	return h
}

// The method "sent" counts a sent message.
func (l *Layer) sent(r *Request, eager bool, cost uint64) {
	r.peer.credit.spend(cost)
	if r.announced = !eager; eager {
		l.stats.SentEager++
	} else {
		l.stats.SentAnnounced++
	}
}

// Abandon ends an unmatched send with the error "why" and returns true, or does nothing and returns
// false if the request is not an unmatched send. After Abandon, the caller is free to change the
// memory of the send. A receive that later matches the message of an abandoned send ends with
// ErrTransfer.
func (l *Layer) Abandon(r *Request, why error) bool {
	switch {
	case r.state == announced:
		// The request "rest" gets the id of the abandoned send, so that a later reply of the peer refers
		// to a valid request id.
		rest := &Request{
			state: announced, mode: r.mode | abandoned, peer: r.peer, tag: r.tag, size: r.size,
		}
		l.requests.inherit(rest, r)
		rest.peer.active.add(rest)
	case r.state != queued:
		return false
	}
	l.finish(r, why)
	l.done.settle()
	return true
}

// onMatched handles a kindMatched message, which reports that a receive of the peer has matched a
// synchronous eager send of this process, and ends this send.
func (l *Layer) onMatched(p *Peer, h *head) bool {
	r := l.requests.named(p, h.a, announced)
	if r == nil {
		return false
	}
	l.finish(r, nil)
	return true
}

// onClear handles the peer's reply to an announced send (clear to send), and begins to transfer the
// data of the send to the receiver's memory. The result of onClear is false if the reply violates
// the protocol, and otherwise true.
func (l *Layer) onClear(now btl.Time, p *Peer, h *head) bool {
	r := l.requests.named(p, h.a, announced)
	if r == nil || h.d > r.size || h.number != 0 && (r.mode&active == 0 || h.number > 1 || h.d != 0) {
		return false
	}
	if h.number != 0 {
		l.finish(r, ErrNoHandler)
		return true
	}
	if h.d == 0 || r.mode&abandoned != 0 {
		l.finish(r, nil)
		if h.d > 0 {
			l.answer(now, p, head{kind: kindFin, number: 1, a: h.b})
		}
		return true
	}
	r.state, r.theirs, r.handle, r.most = moving, h.b, btl.Handle(h.c), h.d
	r.packets = h.flags&flagPackets != 0 || r.shortRuns()
	p.puts.add(r)
	if !l.putNext(now, r) {
		l.busy.add(p)
	}
	return true
}

// putNext sends the next bytes of a matched send, either by a put or in packets, and returns true.
// If putNext sends nothing, because the module has no free buffer or the limit on packets in flight
// is reached, it returns false.
func (l *Layer) putNext(now btl.Time, r *Request) bool {
	if r.packets {
		return l.sendPackets(now, r)
	}
	var runs [btl.PiecesMax][]byte
	count, n := r.nextRuns(uint64(l.m.Limits().FragmentBytesMax), &runs)
	if r.Layout != nil && n < uint64(count*runBytesMin) && r.moved+n < r.most {
		r.packets, r.base, r.under = true, r.moved, 0 // only the first runs are long
		return l.sendPackets(now, r)
	}
	f, err := l.out.preparePut(r, runs[:count], n)
	if errors.Is(err, btl.ErrAgain) {
		return false
	}
	if err != nil {
		return r.peer.failPut(now, r, err)
	}
	r.peer.puts.remove(r)
	f.Context, f.Signal, f.OnDone = r.id, true, l.onPut
	r.under = n
	l.out.give(now, r.peer.ep, f)
	return true
}

// failPut ends a send with ErrTransfer because its next bytes cannot be sent. failPut always
// returns true.
func (p *Peer) failPut(now btl.Time, r *Request, err error) bool {
	p.puts.remove(r)
	if p.ep.Err() == nil { // otherwise the endpoint's event ends r
		p.l.finish(r, fmt.Errorf("%w: %w", ErrTransfer, err))
		p.l.answer(now, p, head{kind: kindFin, number: 1, a: r.theirs})
	}
	return true
}

// putDone handles the completion of a put at the sender.
func (l *Layer) putDone(f *btl.Fragment, err error) {
	r := l.requests.get(f.Context, moving)
	if r == nil {
		return // the send has ended with its peer
	}
	p, now := r.peer, f.Endpoint().Now()
	switch {
	case errors.Is(err, btl.ErrRemoteAccess):
		l.finish(r, ErrTransfer)
		l.answer(now, p, head{kind: kindFin, number: 1, a: r.theirs})
	case err != nil:
		return // the peer's event ends the request
	case r.moved+r.under < r.most:
		r.moved += r.under
		p.puts.add(r)
		l.busy.add(p)
	default:
		l.finish(r, nil)
	}
	l.done.settle()
}
