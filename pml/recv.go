package pml

import (
	"fmt"

	"gobtl/btl"
)

// Recv begins to receive a message into the slice "mem". A message matches if its sender is the
// peer "from", and if its tag equals the argument "tag" in all bits that are set in the argument
// "mask". If the argument "from" is nil, messages from any peer match, unless r.Among restricts
// them to the peers of a set. Recv receives the earliest matching message. If several receives
// match a message, the receive that was posted first gets the message. Receives from any peer
// should use at most four different masks in a Layer, because a receive from any peer with a fifth
// mask searches all unexpected messages. The caller must not access the slice "mem" until r is
// Done. The argument "now" of Recv is the current time. Recv returns ErrBusy if r is in use. Recv
// returns ErrPeer if the connection to the peer has ended and no unexpected message of the peer
// matches.
//
// A peer whose message has matched a receive from any peer must send the data in time. The time
// limit is one minute, plus btl.Config.PeerTimeout, plus the transfer time of the data at 8 KiB/s.
// If the data does not arrive in time, the Layer ends the connection to the peer with
// btl.ErrStalled.
func (l *Layer) Recv(now btl.Time, r *Request, from *Peer, tag, mask uint64, mem []byte) error {
	if r.state != idle {
		return ErrBusy
	}
	r.repeat = never
	return l.recv(now, r, from, tag, mask, mem)
}

// Post begins a receive like Recv and returns true, but only if no matching message has arrived
// yet. If Post returns false, it has begun no receive, and the caller must call Recv, which
// receives the message or returns the error.
func (l *Layer) Post(r *Request, from *Peer, tag, mask uint64, mem []byte) bool {
	if r.state != idle || from != nil && from.err != nil {
		return false
	}
	if r.Among != nil && from == nil {
		l.DropOthers(r.Among, tag, mask)
	}
	if l.unexpected.find(from, tag, mask) != nil {
		return false
	}
	r.repeat = never
	r.begin(from, tag, mask, mem)
	r.state = waiting
	l.posted.add(r)
	return true
}

// The method "recv" implements Recv. The request must be idle: not started, or completed.
func (l *Layer) recv(now btl.Time, r *Request, from *Peer, tag, mask uint64, mem []byte) error {
	if r.Among != nil && from == nil {
		l.DropOthers(r.Among, tag, mask)
	}
	m := l.unexpected.find(from, tag, mask)
	if m == nil && from != nil && from.err != nil {
		return from.err
	}
	r.begin(from, tag, mask, mem)
	if m == nil {
		r.state = waiting
		l.posted.add(r)
		return nil
	}
	l.unexpected.take(m)
	l.receive(now, r, m)
	l.memory.release(m)
	l.done.settle()
	return nil
}

// The method "begin" of a Request sets the fields for a receive.
func (r *Request) begin(from *Peer, tag, mask uint64, mem []byte) {
	r.peer, r.from, r.tag, r.mask, r.mem = from, from, tag, mask, mem
	r.size, r.err, r.id, r.mode, r.moved, r.base = 0, nil, 0, Standard, 0, 0
	r.anyPeer = from == nil
}

// Cancel ends an unmatched receive with ErrCancelled and returns true, or does nothing and returns
// false if the request is not an unmatched receive.
func (l *Layer) Cancel(r *Request) bool {
	if r.state != waiting {
		return false
	}
	l.finish(r, ErrCancelled)
	l.done.settle()
	return true
}

// Probe describes the message that a Recv with the same arguments would receive at once. If no
// arrived message matches, Probe returns false.
func (l *Layer) Probe(from *Peer, tag, mask uint64) (Info, bool) {
	m := l.unexpected.find(from, tag, mask)
	if m == nil {
		return Info{}, false
	}
	return Info{Peer: m.peer, Tag: m.tag, Size: m.size}, true
}

// MProbe removes and returns the message that a Recv with the same arguments would receive at once,
// or returns nil if no arrived message matches. Only RecvMessage can receive a message that MProbe
// has returned. A message that MProbe has returned counts towards its sender's limits until it is
// received, dropped or refused.
func (l *Layer) MProbe(from *Peer, tag, mask uint64) *Message {
	m := l.unexpected.find(from, tag, mask)
	if m != nil {
		m.anyPeer = from == nil
		l.unexpected.take(m)
		l.probed.add(m)
	}
	return m
}

// The type "probed" contains the messages that MProbe has returned, or that a handler keeps. If a
// message in Layer.probed was announced, it is also in the list Peer.probed of its sender.
type probed struct{ all list[Message] }

func (q *probed) add(m *Message) {
	q.all.add(m)
	if !m.eager {
		m.peer.probed.add(m)
	}
}

func (q *probed) remove(m *Message) {
	q.all.remove(m)
	m.peer.probed.remove(m)
}

// RecvMessage begins to receive the message m into the slice "mem", as Recv does with a matching
// message. The message m is a result of MProbe, or was passed to a Handler. RecvMessage returns
// ErrBusy if r is in use, and ErrMessage if m was already received or dropped. RecvMessage returns
// ErrPeer if the connection to the sender ended before the data of m arrived.
func (l *Layer) RecvMessage(now btl.Time, r *Request, m *Message, mem []byte) error {
	switch {
	case r.state != idle:
		return ErrBusy
	case m.gone:
		return ErrMessage
	case !m.eager && m.peer.err != nil:
		l.memory.spend(m)
		return m.peer.err
	}
	r.repeat = never
	r.begin(m.peer, m.tag, exactly, mem)
	r.anyPeer = m.anyPeer
	l.probed.remove(m)
	l.receive(now, r, m)
	l.memory.spend(m)
	l.done.settle()
	return nil
}

func (l *Layer) arrive(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	p, now := l.Peer(ep), ep.Now()
	if p.err != nil {
		return // the connection was given up
	}
	if l.arriveEager(now, p, data) {
		return
	}
	var h head
	rest, ok := h.read(data)
	if ok {
		switch h.kind {
		case kindEager, kindAnnounce, kindActive, kindActiveAnnounce:
			ok = l.onEnvelope(now, p, &h, rest)
		case kindClear:
			ok = l.onClear(now, p, &h)
		case kindFin:
			ok = l.onFin(now, p, &h)
		case kindData:
			ok = l.onData(now, p, &h, rest)
		case kindMatched:
			ok = l.onMatched(p, &h)
		case kindCredit:
			ok = p.credit.report(h.number, h.a)
		}
	}
	if !ok {
		p.drive(ErrProtocol)
	}
	l.done.settle()
}

// arriveEager is a fast path of onEnvelope. If an eager message is the next in its peer's sequence
// and a receive waits for this message, arriveEager delivers the message and returns true. If
// arriveEager cannot deliver the message, it does nothing and returns false, and the caller passes
// the message to onEnvelope.
func (l *Layer) arriveEager(now btl.Time, p *Peer, data []byte) bool {
	number, tag, ok := readEager(data)
	if !ok || number != p.expect || len(data)-headBytes > l.cfg.EagerBytes {
		return false
	}
	cost := uint64(len(data)-headBytes) + messageOverhead
	most := uint32(l.cfg.EnvelopesMax)
	if p.came+cost-p.takenBytes > uint64(l.cfg.UnexpectedBytes) || number-p.taken >= most ||
		p.early != nil && p.early[(number+1)&(most-1)] != nil {
		return false
	}
	r := l.posted.take(p, tag)
	if r == nil {
		return false
	}
	if l.observe != nil {
		l.observe(p, tag, uint64(len(data)-headBytes), true)
	}
	p.expect++
	p.came += cost
	r.state, r.peer, r.tag, r.size = landing, p, tag, uint64(len(data)-headBytes)
	r.announced = false
	r.scatter(data[headBytes:], 0)
	l.took(now, p, cost)
	r.err = r.misfit()
	l.done.tell(r)
	return true
}

// onEnvelope handles an eager message or an announcement. onEnvelope stores a message that has
// overtaken earlier messages in Peer.early, until all earlier messages have arrived. The result of
// onEnvelope is false if the message violates the protocol or the limits on unexpected messages,
// and otherwise true.
func (l *Layer) onEnvelope(now btl.Time, p *Peer, h *head, data []byte) bool {
	ahead, most := h.number-p.expect, uint32(l.cfg.EnvelopesMax)
	m := Message{
		peer: p, tag: h.a, size: h.c, id: h.b, sync: h.flags&flagSync != 0, active: h.active(),
		eager: h.kind == kindEager || h.kind == kindActive,
	}
	if m.active {
		m.tag, m.head = uint64(h.id), int(h.a)
	}
	if m.eager {
		m.size = uint64(len(data) - m.head)
	}
	if p.came += m.cost(); p.came-p.takenBytes > uint64(l.cfg.UnexpectedBytes) ||
		m.eager && len(data) > l.cfg.EagerBytes || m.head > l.HeaderMax() {
		return false // exceeds the limits
	}
	if h.number-p.taken >= most || ahead >= most {
		return false
	}
	if ahead > 0 {
		if p.early == nil {
			p.early = make([]*Message, most)
			p.charge(int64(most) * earlyMemory)
		}
		place := &p.early[h.number&(most-1)]
		if *place != nil {
			return false
		}
		*place = l.memory.keep(&m, data)
		l.stats.Early++
		return true
	}
	ready := h.flags&flagReady != 0
	l.match(now, &m, data, ready)
	for p.expect++; p.early != nil && p.err == nil; p.expect++ {
		place := &p.early[p.expect&(most-1)]
		m := *place
		if m == nil {
			break
		}
		*place = nil
		l.matchKept(now, m)
	}
	return true
}

// The method "match" passes a message that has just arrived to a matching receive. If no receive
// matches, the method "match" adds the message to Layer.unexpected.
func (l *Layer) match(now btl.Time, m *Message, data []byte, ready bool) {
	if m.active {
		l.deliverNew(now, m, data)
		return
	}
	if l.observe != nil {
		l.observe(m.peer, m.tag, m.size, m.eager)
	}
	if r := l.posted.take(m.peer, m.tag); r != nil {
		m.data = data
		l.receive(now, r, m)
		return
	}
	if ready {
		l.stats.NotReady++
	}
	if l.refused.has(m.tag) {
		l.drop(now, m)
		return
	}
	l.stats.Unexpected++
	l.unexpected.add(l.memory.keep(m, data))
}

// matchKept works like the method "match", for a message that was stored in Peer.early because it
// had overtaken earlier messages.
func (l *Layer) matchKept(now btl.Time, m *Message) {
	if m.active {
		l.deliver(now, m)
		return
	}
	if l.observe != nil {
		l.observe(m.peer, m.tag, m.size, m.eager)
	}
	if r := l.posted.take(m.peer, m.tag); r != nil {
		l.receive(now, r, m)
		l.memory.release(m)
		return
	}
	if l.refused.has(m.tag) {
		l.drop(now, m)
		l.memory.release(m)
		return
	}
	l.stats.Unexpected++
	l.unexpected.add(m)
}

// The method "receive" passes a message to a matching receive. The caller must have removed the
// message and the receive from all queues.
func (l *Layer) receive(now btl.Time, r *Request, m *Message) {
	p := m.peer
	r.state, r.peer, r.tag, r.size, r.announced = landing, p, m.tag, m.size, !m.eager
	r.theirs = m.id
	switch {
	case m.eager:
		r.scatter(m.data[m.head:], 0)
		l.finish(r, r.misfit())
		if m.sync {
			l.answer(now, p, head{kind: kindMatched, a: m.id})
		}
	case p.err != nil:
		l.finish(r, p.err)
	case r.Len() == 0:
		l.finish(r, r.misfit())
		l.answer(now, p, head{kind: kindClear, a: m.id})
	default:
		p.active.add(r)
		// Peers that wait for a region are first.
		if p.landing.add(r); p.landing.first == r && (l.hosts.homeless.first != nil || !p.house()) {
			p.wait()
		}
	}
	l.took(now, p, m.cost())
}

// The method "misfit" returns ErrTruncated if the message is longer than the receive buffer, and
// ErrShort if the message is shorter than the buffer of an Exact receive. If the message fits, the
// method "misfit" returns nil.
func (r *Request) misfit() error {
	room := uint64(r.room())
	switch {
	case r.size > room:
		return fmt.Errorf("%w: %d bytes into %d", ErrTruncated, r.size, room)
	case r.size < room && r.Exact:
		return fmt.Errorf("%w: %d bytes into %d", ErrShort, r.size, room)
	}
	return nil
}

// The method "expose" registers a receive buffer as a memory region, and sends the region's handle
// to the sender. For a receive with a Layout, the method "expose" registers no region, and asks the
// sender for packets instead of puts. The result of the method "expose" is false if no memory
// region or no request id is free, and otherwise true.
func (l *Layer) expose(r *Request) bool {
	if r.Layout != nil {
		return r.peer.askForPackets(r)
	}
	region := new(btl.Region) // only the sender may access the region
	err := l.m.ExposeAs(region, r.mem[:r.Len()], btl.RemoteWrite|btl.RemoteNotify, r.peer.ep)
	if err != nil || !l.requests.name(r) {
		if err == nil {
			region.Close()
		}
		return false
	}
	r.peer.landing.remove(r)
	r.peer.exposes(r)
	r.region = region
	r.peer.asks(r)
	l.answer(r.peer.ep.Now(), r.peer, head{
		kind: kindClear, a: r.theirs, b: r.id, c: uint64(region.Handle()), d: uint64(r.Len()),
	})
	return true
}

// onFin ends a receive after all bytes were written, or after the sender has reported a failure. If
// the transfer has succeeded, onFin sends credit for the message to the sender at once, so that the
// credit is in the same packet as the transport's acknowledgement. The result of onFin is false if
// the message of kind "fin" violates the protocol, and otherwise true.
func (l *Layer) onFin(now btl.Time, p *Peer, h *head) bool {
	r := l.requests.named(p, h.a, landing)
	if r == nil || h.number == 0 && r.region == nil {
		return false
	}
	if h.number != 0 {
		l.finish(r, ErrTransfer)
		return true
	}
	l.finish(r, r.misfit())
	l.tellTaken(now, p)
	return true
}

// The method "cost" returns the number of bytes for which a message counts towards UnexpectedBytes.
func (m *Message) cost() uint64 {
	if !m.eager {
		return uint64(m.head)
	}
	return uint64(m.head) + m.size + messageOverhead
}
