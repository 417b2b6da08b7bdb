package sim

import (
	"hash/crc32"
	"syscall"

	"gobtl/fabric"
	"gobtl/internal/fifo"
)

// The type "endpoint" implements fabric.Endpoint.
type endpoint struct {
	domain *domain
	port   Port
	ref    uint32 // the endpoint's number in the network
	caps   fabric.Caps
	source bool
	closed bool
	queue  fifo.Queue[*packet]    // datagrams that wait for a buffer and a Poll
	posted fifo.Queue[fabric.Buf] // posted receive buffers, filled in the order of posting
	sends  fifo.Queue[sendOp]     // sends whose completion Poll has not reported
	missed uint64                 // datagrams that found the queue full
	// The field "left" is the number of sends at the front of the queue "sends" whose datagrams the
	// endpoint has already transmitted. The next Poll reports the completion of each transmitted send.
	left int
	land fabric.HeaderSplit
	// The field "ahead" holds completions of datagrams that the latest Poll has received, and that the
	// next Poll will report.
	ahead fifo.Queue[fabric.Completion]
	// The field "origins" holds the senders of the datagrams that the latest Poll has received,
	// including the datagrams that the next Poll will report.
	origins []Port
}

// sendOp is a send that yields a Completion.
type sendOp struct {
	send  fabric.Send
	to    Port
	crc   uint32 // checksum of the bytes at the time of Post
	errno int32
}

var (
	_ fabric.Endpoint   = (*endpoint)(nil)
	_ fabric.Lander     = (*endpoint)(nil)
	_ fabric.Sourcer    = (*endpoint)(nil)
	_ fabric.Overrunner = (*endpoint)(nil)
)

// maxOrigins is the largest number of received datagrams for which an endpoint records the sender
// (see AppendSource).
const maxOrigins = 1 << 16

func newEndpoint(d *domain, cfg fabric.EndpointConfig) *endpoint {
	nw := d.node.nw
	e := &endpoint{
		domain: d,
		port:   Port{Node: d.node.index, Index: len(d.ports)},
		ref:    uint32(len(nw.endpoints)),
		source: cfg.Source,
		caps: fabric.Caps{
			MTUBytes:     nw.cfg.MTUBytes,
			InjectBytes:  nw.cfg.InjectBytes,
			TxDepth:      cfg.TxDepth,
			RxDepth:      cfg.RxDepth,
			RecvCapacity: nw.cfg.QueueDatagrams,
			Gather:       !nw.cfg.NoGather,
			FreeRegions:  !nw.cfg.NoGather && nw.cfg.FreeRegions,
			Landing:      !nw.cfg.NoLanding,
			Source:       cfg.Source,
			PollsAll:     true,
		},
	}
	nw.endpoints = append(nw.endpoints, e)
	return e
}

// Overruns implements fabric.Overrunner.
func (e *endpoint) Overruns() uint64 { return e.missed }

func (e *endpoint) Caps() fabric.Caps { return e.caps }

func (e *endpoint) Name() []byte { return e.port.Name() }

func (e *endpoint) Post(sends []fabric.Send) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	limit := len(sends)
	again := limit > 0 && e.again(&limit)
	for i := range sends[:limit] {
		if err := e.postOne(&sends[i]); err != nil {
			return i, err
		}
	}
	if again {
		e.domain.node.nw.record(Event{Kind: KindPostAgain, From: e.port, To: e.port}, 0)
		return limit, fabric.ErrAgain
	}
	return limit, nil
}

// The method "again" decides whether the fault PostAgain makes a Post return ErrAgain. The result
// of the method "again" is true if the Post must return ErrAgain, and otherwise false. If the Post
// must return ErrAgain, the method "again" reduces *limit to the number of sends that the Post
// accepts before ErrAgain.
func (e *endpoint) again(limit *int) bool {
	n := e.domain.node
	if n.againPosts > 0 {
		n.againPosts--
		*limit = 0
		return true
	}
	if !n.dice.chance(n.faults.PostAgain) {
		return false
	}
	n.againPosts = n.dice.below(n.faults.AgainPosts)
	*limit = n.dice.below(*limit)
	return true
}

func (e *endpoint) postOne(s *fabric.Send) error {
	d := e.domain
	if int64(s.Buf) >= int64(d.arena.Len()) {
		return d.misuse(errBadBuf)
	}
	if d.use[s.Buf] == inUseByRecv {
		return d.misuse(errBusyBuf)
	}
	to := d.peer(s.To)
	if to == nil {
		return d.misuse(errUnknownAddr)
	}
	d.used[s.Buf] = true
	if uint64(s.Len) > uint64(d.arena.Size()) {
		return errTooLong
	}
	size := int(s.Len)
	if s.Region != 0 {
		if _, err := d.gather(s); err != nil {
			return err
		}
		size += int(s.RegionLen)
	}
	if size > e.caps.MTUBytes {
		return errTooLong
	}
	if d.use[s.Buf] > 0 {
		d.node.nw.violate(e.port, "buffer %d posted again before its completion", s.Buf)
	}
	if d.node.nw.cfg.Reliable && e.heldUp(to.port, size) {
		return fabric.ErrAgain
	}
	if told := d.node.nw.link(e.port.Node, to.port.Node).told; told > 0 && size > told {
		d.node.nw.record(Event{Kind: KindSendError, From: e.port, To: to.port}, 0)
		return errTooLong
	}
	fails := d.node.dice.chance(d.node.faults.SendError)
	if size > e.caps.InjectBytes {
		return e.postOp(s, to, fails)
	}
	if fails {
		d.node.nw.record(Event{Kind: KindSendError, From: e.port, To: to.port}, 0)
		return errSend
	}
	p := d.node.nw.newPacket()
	p.from, p.to = e.port, to.port
	e.read(s, p)
	d.node.nw.transmit(p)
	return nil
}

// heldUp reports whether a reliable network cannot accept a datagram to the given Port at present.
// A reliable network refuses a datagram if the receiver's queue is full, or if an injected send
// would overtake an earlier send.
func (e *endpoint) heldUp(port Port, sizeBytes int) bool {
	to := e.domain.node.nw.endpoint(port)
	return to != nil && to.queue.Len() >= to.domain.node.queueDatagrams() ||
		sizeBytes <= e.caps.InjectBytes && e.left < e.sends.Len()
}

// postOp accepts a send that yields a Completion.
func (e *endpoint) postOp(s *fabric.Send, to *peer, fails bool) error {
	d := e.domain
	nw := d.node.nw
	if e.sends.Len() >= e.caps.TxDepth {
		return fabric.ErrAgain
	}
	d.use[s.Buf]++
	to.sending++
	if s.Region != 0 {
		d.regions[s.Region].sending++
	}
	op := sendOp{send: *s, to: to.port, crc: e.crc(s)}
	if fails {
		op.errno = int32(syscall.EIO)
	}
	e.sends.Append(op)
	late := d.node.faults.LateSends
	if late <= 0 && e.left == e.sends.Len()-1 {
		e.leave(&op.crc)
		return nil
	}
	nw.timer(nw.now.Add(d.node.dice.within(late)), timerLeave, e.ref)
	return nil
}

// The method "crc" returns the checksum of the bytes of a send.
func (e *endpoint) crc(s *fabric.Send) uint32 {
	sum := crc32.Checksum(e.domain.arena.Bytes(s.Buf)[:s.Len], castagnoli)
	if s.Region != 0 {
		if tail, err := e.domain.gather(s); err == nil {
			sum = crc32.Update(sum, castagnoli, tail)
		}
	}
	return sum
}

// read copies the bytes of a send into a packet.
func (e *endpoint) read(s *fabric.Send, p *packet) {
	p.data = append(p.data, e.domain.arena.Bytes(s.Buf)[:s.Len]...)
	if s.Region != 0 {
		if tail, err := e.domain.gather(s); err == nil {
			p.data = append(p.data, tail...)
		}
	}
}

// The method "leave" transmits the datagram of the oldest send that was not transmitted yet. The
// argument "crc" of the method "leave" is the checksum of the datagram, or nil if the checksum is
// not known.
func (e *endpoint) leave(crc *uint32) {
	op := e.sends.At(e.left)
	e.left++
	n := e.domain.node
	if op.errno != 0 {
		n.nw.record(Event{Kind: KindSendError, From: e.port, To: op.to}, 0)
	} else {
		p := n.nw.newPacket()
		p.from, p.to = e.port, op.to
		e.read(&op.send, p)
		if crc != nil {
			p.crc, p.hasCRC = *crc, true
		}
		n.nw.transmit(p)
	}
	n.wake(n.nw.now)
}

// Poll reports completed sends first, and then received datagrams.
func (e *endpoint) Poll(out []fabric.Completion) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	n := 0
	if e.ahead.Len() == 0 {
		e.origins = e.origins[:0]
	}
	for n < len(out) && e.left > 0 {
		out[n] = e.completeSend()
		n++
	}
	d := e.domain
	for n < len(out) && e.ahead.Len() > 0 {
		out[n] = e.ahead.Pop()
		d.use[out[n].Buf] = 0
		n++
	}
	received := false
	for n < len(out) && e.queue.Len() > 0 && e.posted.Len() > 0 {
		out[n] = e.receive()
		d.use[out[n].Buf] = 0
		n++
		received = true
	}
	if received && n == len(out) { // out is full: a Poll may receive PollAhead more datagrams
		for e.ahead.Len() < d.node.nw.cfg.PollAhead && e.queue.Len() > 0 && e.posted.Len() > 0 {
			e.ahead.Append(e.receive())
		}
	}
	return n, nil
}

// completeSend completes the oldest send, whose buffer then belongs to the caller again. If the
// caller has changed the buffer of the send after Post, completeSend records a violation (see
// Violations).
func (e *endpoint) completeSend() fabric.Completion {
	d := e.domain
	op := e.sends.Pop()
	e.left--
	s := &op.send
	gone := s.Region != 0 && d.regions[s.Region].mem == nil
	if !gone && e.crc(s) != op.crc {
		d.node.nw.violate(e.port, "buffer %d or its region altered before the completion", s.Buf)
	}
	d.use[s.Buf]--
	d.peers[s.To-d.addrBase].sending--
	if s.Region != 0 {
		d.regions[s.Region].sending--
	}
	return fabric.Completion{
		From: fabric.AddrUnknown, Buf: s.Buf, Errno: op.errno, Op: fabric.OpSend,
	}
}

// The method "receive" copies the oldest datagram of the receive queue into the oldest posted
// buffer.
func (e *endpoint) receive() fabric.Completion {
	d := e.domain
	nw := d.node.nw
	p, b := e.queue.Pop(), e.posted.Pop()
	nw.queued--
	c := fabric.Completion{From: fabric.AddrUnknown, Buf: b, Op: fabric.OpRecv}
	kind := KindDelivered
	if d.node.dice.chance(d.node.faults.RecvError) {
		c.Errno = int32(syscall.EIO)
		kind = KindRecvError
	} else {
		e.land.Copy(&c, d.arena.Bytes(b), p.data)
		if e.source {
			c.From = d.addrOf(p.from)
		}
		c.Origin = maxOrigins - 1
		if len(e.origins) < maxOrigins-1 {
			c.Origin = uint16(len(e.origins))
			e.origins = append(e.origins, p.from)
		}
	}
	nw.drop(kind, p)
	return c
}

// AppendSource implements fabric.Sourcer.
func (e *endpoint) AppendSource(dst []byte, c *fabric.Completion) []byte {
	if e.domain.node.nw.cfg.NoSource || int(c.Origin) >= len(e.origins) {
		return dst
	}
	return e.origins[c.Origin].appendName(dst)
}

func (e *endpoint) Recv(bufs []fabric.Buf) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	d := e.domain
	for i, b := range bufs {
		switch {
		case int64(b) >= int64(len(d.use)):
			return i, d.misuse(errBadBuf)
		case d.use[b] != 0:
			return i, d.misuse(errBusyBuf)
		case e.posted.Len() >= e.caps.RxDepth:
			return i, fabric.ErrAgain
		}
		e.posted.Append(b)
		d.use[b] = inUseByRecv
		d.used[b] = true
	}
	if e.pollable() {
		d.node.wake(d.node.nw.now)
	}
	return len(bufs), nil
}

// Land implements fabric.Lander.
func (e *endpoint) Land(mem []byte, headBytes int) bool {
	if !e.caps.Landing || e.ahead.Len() > 0 {
		return false
	}
	e.land = fabric.NewHeaderSplit(mem, headBytes)
	return true
}

func (e *endpoint) pollable() bool {
	return e.left > 0 || e.ahead.Len() > 0 || e.posted.Len() > 0 && e.queue.Len() > 0
}

// Close closes the endpoint. A second Close does nothing and returns nil. Close drops the datagrams
// in the receive queue, and the sends whose datagrams have not left the endpoint.
func (e *endpoint) Close() error {
	e.shut()
	return nil
}

func (e *endpoint) shut() {
	if e.closed {
		return
	}
	e.closed = true
	d := e.domain
	d.ports[e.port.Index] = nil
	d.node.nw.endpoints[e.ref] = nil // a reference would keep the arena
	for e.queue.Len() > 0 {
		d.node.nw.queued--
		d.node.nw.drop(KindUnreachable, e.queue.Pop())
	}
	for e.sends.Len() > 0 {
		op := e.sends.Pop()
		d.use[op.send.Buf]--
		d.peers[op.send.To-d.addrBase].sending--
		if r := op.send.Region; r != 0 {
			d.regions[r].sending--
		}
	}
	for e.posted.Len() > 0 {
		d.use[e.posted.Pop()] = 0
	}
	for e.ahead.Len() > 0 {
		d.use[e.ahead.Pop().Buf] = 0
	}
}
