//go:build linux

package shm

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/internal/fifo"
)

const (
	// Only one of every tendPolls polls checks for new and vanished peers, because the check needs a
	// system call. For an endpoint without incoming rings, one of every tendIdlePolls polls checks for
	// new and vanished peers.
	tendPolls     = 512
	tendIdlePolls = 8
	// A poll first looks for datagrams in the ring from which the latest datagram came, and then in
	// the next scanRings rings of the endpoint.
	scanRings = 8
	// If the latest scan has found no datagram, a poll looks only in the next scanIdle rings, not in
	// scanRings rings.
	scanIdle = 2
	// injectBytes is the largest size of a send that yields no Completion. If the ring has no room for
	// a datagram of at most injectBytes, the datagram is copied into the queue of waiting sends.
	injectBytes = 256
	// In the queue of waiting sends, the last TxDepth/readersShare free slots are reserved for the
	// first waiting send to each peer, so that peers that do not read their rings cannot fill the
	// queue of waiting sends.
	readersShare = 8
)

// The type "endpoint" implements fabric.Endpoint and fabric.Lander.
type endpoint struct {
	domain *domain
	slot   int
	number uint16
	caps   fabric.Caps
	closed bool

	done    fifo.Queue[sent] // sends whose completion was not polled yet
	unsent  int              // sends that wait for room
	stalled []*outLink       // the links of the sends that wait for room

	// The field "posted" holds the posted receive buffers.
	posted  []fabric.Buf
	landing fabric.HeaderSplit
	rings   []*inLink
	scan    int     // where the next poll begins to scan
	hot     *inLink // the ring that was the last to have a datagram
	wide    bool    // the last scan of the other rings found a datagram
	others  bool    // the latest poll had room for one completion, and skipped the ring hot
	polls   uint32
}

// The type "sent" is the result of a send that has completed or failed.
type sent struct {
	buf   fabric.Buf
	errno int32
}

var (
	_ fabric.Endpoint = (*endpoint)(nil)
	_ fabric.Lander   = (*endpoint)(nil)
)

func newEndpoint(d *domain, slot int, number uint16, cfg fabric.EndpointConfig) *endpoint {
	return &endpoint{
		domain: d,
		slot:   slot,
		number: number,
		caps: fabric.Caps{
			MTUBytes:     d.info.MTUBytes,
			InjectBytes:  min(injectBytes, d.info.MTUBytes),
			TxDepth:      cfg.TxDepth,
			RxDepth:      cfg.RxDepth,
			RecvCapacity: cfg.RxDepth, // datagrams for which a ring has no room wait at the sender

			Gather:        true,
			FreeRegions:   true,
			Landing:       true,
			RemoveCancels: true,
		},
		done:   fifo.New[sent](cfg.TxDepth),
		posted: make([]fabric.Buf, 0, cfg.RxDepth),
	}
}

func (e *endpoint) Caps() fabric.Caps { return e.caps }

func (e *endpoint) Name() []byte {
	n := e.domain.name
	n.endpoint = e.number
	return n.append(nil)
}

// Post implements fabric.Endpoint. If the ring to the peer has no room for a datagram, the send
// waits in a queue, after earlier sends to the same peer.
func (e *endpoint) Post(sends []fabric.Send) (n int, err error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	var last *outLink
	for n = range sends {
		var l *outLink
		if l, err = e.postOne(&sends[n]); err != nil {
			break
		}
		if l != last && last != nil {
			last.flush()
		}
		last = l
	}
	if last != nil {
		last.flush()
	}
	if err != nil {
		return n, err
	}
	return len(sends), nil
}

func (e *endpoint) postOne(s *fabric.Send) (*outLink, error) {
	d := e.domain
	if int64(s.Buf) >= int64(d.arena.Len()) {
		return nil, errBadBuf
	}
	size := uint64(s.Len)
	if size > uint64(d.arena.Size()) {
		return nil, errTooLong
	}
	if s.Region != 0 {
		if d.regions.Gather(s) == nil {
			return nil, errBadRegion
		}
		size += uint64(s.RegionLen)
	}
	if size > uint64(e.caps.MTUBytes) {
		return nil, errTooLong
	}
	p := d.peers.get(s.To)
	if p == nil {
		return nil, errUnknownAddr
	}
	l := e.link(p)
	inject := size <= uint64(e.caps.InjectBytes)
	free := e.caps.TxDepth - e.done.Len() - e.unsent
	if free == 0 && !inject {
		return nil, fabric.ErrAgain
	}
	if l.lost != 0 {
		return nil, l.tellLost()
	}
	if l.waiting.Len() == 0 {
		switch again, errno := l.send(s); {
		case again:
		case !inject:
			e.done.Push(sent{s.Buf, int32(errno)})
			return l, nil
		case errno != 0:
			return nil, sendFailed(errno)
		default:
			return l, nil
		}
	}
	// The first waiting send to a peer can take any free slot of the queue of waiting sends. A further
	// send to the same peer can wait only if the queue has more unreserved free slots than waiting
	// sends to this peer.
	reserve := e.caps.TxDepth / readersShare
	if l.waiting.Len() >= free-reserve && (l.waiting.Len() > 0 || free == 0) {
		return nil, fabric.ErrAgain
	}
	return l, e.hold(l, s, inject)
}

// The method "hold" puts a send into the queue of waiting sends, where the send waits until the
// ring has room.
func (e *endpoint) hold(l *outLink, s *fabric.Send, inject bool) error {
	l.waiting.Grow(e.caps.TxDepth)
	h := held{Send: *s, injected: inject}
	if inject {
		n := copy(h.data[:], e.domain.arena.Bytes(s.Buf)[:s.Len])
		if s.Region != 0 {
			tail := e.domain.regions.Gather(s)
			if tail == nil {
				return errBadRegion
			}
			n += copy(h.data[n:], tail)
		}
		h.Len, h.Region, h.RegionLen = uint32(n), 0, 0
	}
	l.waiting.Push(h)
	e.unsent++
	if !l.listed {
		l.listed = true
		e.stalled = append(e.stalled, l)
		e.domain.sleeper.stalled(l)
	}
	return nil
}

// The method "ended" records the success or the error of a send that has waited for room in a ring.
// An injected send yields no Completion. If an injected send fails after Post has returned, the
// next Post to the same peer returns the error.
func (e *endpoint) ended(l *outLink, h *held, errno syscall.Errno) {
	switch {
	case !h.injected:
		e.done.Push(sent{h.Buf, int32(errno)})
	case errno != 0 && errno != unix.ECANCELED:
		l.lost = errno
	}
}

func (e *endpoint) link(p *peer) *outLink {
	if e.slot < len(p.links) && p.links[e.slot] != nil {
		return p.links[e.slot]
	}
	for len(p.links) <= e.slot {
		p.links = append(p.links, nil)
	}
	l := &outLink{ep: e, to: p.name, fd: -1, memfd: -1}
	p.links[e.slot] = l
	return l
}

func (e *endpoint) sendStalled() {
	keep := e.stalled[:0]
	for _, l := range e.stalled {
		before := l.waiting.Len()
		l.goOn()
		e.unsent -= before - l.waiting.Len()
		if l.waiting.Len() > 0 {
			keep = append(keep, l)
		} else {
			l.listed = false
		}
	}
	clear(e.stalled[len(keep):])
	e.stalled = keep
}

// Poll implements fabric.Endpoint.
func (e *endpoint) Poll(out []fabric.Completion) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	if e.polls++; e.polls%tendPolls == 0 || len(e.rings) == 0 && e.polls%tendIdlePolls == 0 {
		e.domain.loop.tend()
	}
	if len(e.stalled) > 0 {
		e.sendStalled()
	}
	n := 0
	for n < len(out) && e.done.Len() > 0 {
		s := e.done.Pop()
		out[n] = fabric.Completion{
			From: fabric.AddrUnknown, Buf: s.buf, Errno: s.errno, Op: fabric.OpSend,
		}
		n++
	}
	if n < len(out) && len(e.posted) > 0 {
		n += e.receive(out[n:])
	}
	return n, nil
}

// The method "receive" receives datagrams from the ring from which the latest datagram came, and
// then from a few more rings of the endpoint (round robin).
func (e *endpoint) receive(out []fabric.Completion) (n int) {
	if len(e.rings) == 1 {
		q := e.rings[0]
		if !q.gone && !q.ring.waiting() { // the usual result if the caller polls continuously
			return 0
		}
		return e.drain(q, out)
	}
	if e.others = len(out) == 1 && !e.others; e.hot != nil && !e.others {
		n = e.drain(e.hot, out[:max(1, len(out)/2)])
	}
	look := min(len(e.rings), scanRings)
	if len(e.rings) > scanRings && !e.wide {
		look = scanIdle
	}
	e.wide = false
	share := max(1, len(out)/max(1, look)) // so that a few full rings cannot fill out
	for range look {
		if n == len(out) || len(e.rings) == 0 {
			break
		}
		if e.scan++; e.scan >= len(e.rings) {
			e.scan = 0
		}
		q := e.rings[e.scan]
		if got := e.drain(q, out[n:min(len(out), n+share)]); got > 0 {
			n += got
			e.wide = true
			if q.fd >= 0 { // otherwise drain has closed the ring
				e.hot = q
			}
		}
	}
	return n
}

// The method "drain" receives datagrams from a ring, until the ring is empty, the slice "out" is
// full, or no posted buffer is left.
func (e *endpoint) drain(q *inLink, out []fabric.Completion) (n int) {
	for n < len(out) && len(e.posted) > 0 {
		pkt, err := q.ring.next()
		if err != nil || pkt == nil && q.gone {
			q.close()
			return n
		}
		if pkt == nil {
			break
		}
		c := &out[n]
		last := len(e.posted) - 1
		*c = fabric.Completion{From: fabric.AddrUnknown, Buf: e.posted[last], Op: fabric.OpRecv}
		e.posted = e.posted[:last]
		e.landing.Copy(c, e.domain.arena.Bytes(c.Buf), pkt)
		q.ring.advance(len(pkt))
		n++
	}
	if how := q.ring.giveBack(); how != awake {
		rouse(q.fd, q.ring.wants(), how)
	}
	return n
}

// Recv implements fabric.Endpoint.
func (e *endpoint) Recv(bufs []fabric.Buf) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	if len(e.posted) == 0 {
		defer e.domain.sleeper.receives(e)
	}
	for i, b := range bufs {
		switch {
		case int64(b) >= int64(e.domain.arena.Len()):
			return i, errBadBuf
		case len(e.posted) == e.caps.RxDepth:
			return i, fabric.ErrAgain
		}
		e.posted = append(e.posted, b)
	}
	return len(bufs), nil
}

// Land implements fabric.Lander. Land always returns true, because a datagram stays in its ring
// until Poll reports it.
func (e *endpoint) Land(mem []byte, headBytes int) bool {
	e.landing = fabric.NewHeaderSplit(mem, headBytes)
	return true
}

// forget removes a closed ring from the endpoint.
func (e *endpoint) forget(q *inLink) {
	if e.hot == q {
		e.hot = nil
	}
	if i := slices.Index(e.rings, q); i >= 0 {
		e.rings = slices.Delete(e.rings, i, i+1)
	}
}

func (e *endpoint) pollable() bool {
	if e.done.Len() > 0 {
		return true
	}
	if len(e.posted) == 0 {
		return false
	}
	return slices.ContainsFunc(e.rings, func(q *inLink) bool { return q.gone || q.ring.waiting() })
}

// Close closes the endpoint. A second Close does nothing and returns nil. Close drops the arrived
// datagrams that Poll has not reported, and the sends that wait for room in a ring. After Close,
// peers can still read the datagrams that the endpoint has written to its rings.
func (e *endpoint) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	for len(e.rings) > 0 {
		e.rings[0].close()
	}
	for i := range e.domain.peers.peers {
		if p := &e.domain.peers.peers[i]; e.slot < len(p.links) && p.links[e.slot] != nil {
			p.links[e.slot].close()
			p.links[e.slot] = nil
		}
	}
	e.stalled = nil
	e.domain.endpoints[e.slot] = nil
	return nil
}
