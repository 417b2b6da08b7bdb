package mem

import (
	"gobtl/fabric"
	"gobtl/internal/fifo"
)

// The type "endpoint" implements fabric.Endpoint. Only the goroutine that uses the domain may
// access the fields of an endpoint, except the field "inbox", which has its own lock.
type endpoint struct {
	domain *domain
	inbox  *inbox
	caps   fabric.Caps
	number uint32
	name   [nameBytes]byte
	source bool
	closed bool

	sent    fifo.Queue[fabric.Buf] // sends whose completion was not polled yet
	posted  fifo.Queue[fabric.Buf] // posted receive buffers, filled in the order of posting
	landing fabric.HeaderSplit
	scratch []byte   // a filter's private copy of a datagram
	origins []uint32 // senders of the datagrams of the latest Poll
}

var (
	_ fabric.Endpoint = (*endpoint)(nil)
	_ fabric.Lander   = (*endpoint)(nil)
	_ fabric.Sourcer  = (*endpoint)(nil)
)

// maxOrigins is the largest number of completions of one Poll whose senders the endpoint records
// (see AppendSource).
const maxOrigins = 1 << 16

func newEndpoint(d *domain, cfg fabric.EndpointConfig) (*endpoint, error) {
	c := d.nw.cfg
	in := newInbox(c.QueueDatagrams, c.MTUBytes, d.bell)
	number, err := d.nw.attach(in)
	if err != nil {
		return nil, err
	}
	return &endpoint{
		domain: d,
		inbox:  in,
		number: number,
		name:   makeName(number),
		source: cfg.Source,
		caps: fabric.Caps{
			MTUBytes:     c.MTUBytes,
			InjectBytes:  c.InjectBytes,
			TxDepth:      cfg.TxDepth,
			RxDepth:      cfg.RxDepth,
			RecvCapacity: c.QueueDatagrams,
			Gather:       !c.NoGather,
			FreeRegions:  !c.NoGather && c.FreeRegions,
			Landing:      !c.NoLanding,
			Source:       cfg.Source,
			PollsAll:     true,
		},
		sent:    fifo.New[fabric.Buf](cfg.TxDepth),
		posted:  fifo.New[fabric.Buf](cfg.RxDepth),
		scratch: make([]byte, 0, c.MTUBytes),
		origins: make([]uint32, 0, min(cfg.RxDepth, maxOrigins)),
	}, nil
}

func (e *endpoint) Caps() fabric.Caps { return e.caps }

func (e *endpoint) Name() []byte { return append([]byte(nil), e.name[:]...) }

func (e *endpoint) Post(sends []fabric.Send) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	for i := range sends {
		if err := e.postOne(&sends[i]); err != nil {
			return i, err
		}
	}
	return len(sends), nil
}

func (e *endpoint) postOne(s *fabric.Send) error {
	d := e.domain
	if int64(s.Buf) >= int64(d.arena.Len()) {
		return errBadBuf
	}
	if d.use[s.Buf] == inUseByRecv {
		return errBusyBuf
	}
	to := d.peer(s.To)
	if to == nil {
		return errUnknownAddr
	}
	head := d.arena.Bytes(s.Buf)
	if uint64(s.Len) > uint64(len(head)) {
		return errTooLong
	}
	head = head[:s.Len]
	var tail []byte
	if s.Region != 0 {
		var err error
		if tail, err = d.gather(s); err != nil {
			return err
		}
	}
	size := len(head) + len(tail)
	if size > e.caps.MTUBytes {
		return errTooLong
	}
	if size > e.caps.InjectBytes {
		if e.sent.Full() {
			return fabric.ErrAgain
		}
		e.sent.Push(s.Buf)
		d.use[s.Buf]++
	}
	d.nw.sent.Add(1)
	e.transmit(to, head, tail)
	return nil
}

func (d *domain) gather(s *fabric.Send) ([]byte, error) {
	if d.nw.cfg.NoGather {
		return nil, fabric.ErrNotSupported
	}
	if int64(s.Region) >= int64(len(d.regions)) || d.regions[s.Region] == nil {
		return nil, errBadRegion
	}
	region := d.regions[s.Region]
	if s.RegionOff > uint64(len(region)) || uint64(s.RegionLen) > uint64(len(region))-s.RegionOff {
		return nil, errBadRegion
	}
	return region[s.RegionOff : s.RegionOff+uint64(s.RegionLen)], nil
}

// The method "transmit" puts one datagram into the receiver's queue. If the network has a Filter,
// the Filter decides whether the datagram is delivered.
func (e *endpoint) transmit(to *peer, head, tail []byte) {
	nw := e.domain.nw
	filter := nw.filter.Load()
	if filter == nil {
		nw.deliver(e.number, to.inbox, head, tail)
		return
	}
	pkt := append(append(e.scratch[:0], head...), tail...)
	switch (*filter)(e.name[:], to.name[:], pkt) {
	case Deliver:
		nw.deliver(e.number, to.inbox, pkt, nil)
	case Duplicate:
		nw.duplicated.Add(1)
		nw.deliver(e.number, to.inbox, pkt, nil)
		nw.deliver(e.number, to.inbox, pkt, nil)
	case Hold:
		nw.hold(e.number, to.inbox, pkt)
	default:
		nw.filtered.Add(1)
	}
}

// Poll reports completed sends first, and then received datagrams. At most TxDepth completed sends
// wait for a Poll.
func (e *endpoint) Poll(out []fabric.Completion) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	n := 0
	for n < len(out) && e.sent.Len() > 0 {
		b := e.sent.Pop()
		e.domain.use[b]--
		out[n] = fabric.Completion{From: fabric.AddrUnknown, Buf: b, Op: fabric.OpSend}
		n++
	}
	e.origins = e.origins[:0]
	if n < len(out) && e.posted.Len() > 0 {
		n += e.receive(out[n:])
	}
	return n, nil
}

// The method "receive" copies datagrams from the endpoint's receive queue into posted buffers.
func (e *endpoint) receive(out []fabric.Completion) int {
	in := e.inbox
	in.mu.Lock()
	defer in.mu.Unlock()
	n := 0
	for n < len(out) && in.count > 0 && e.posted.Len() > 0 {
		from, pkt := in.first()
		b := e.posted.Pop()
		e.domain.use[b] = 0
		out[n] = fabric.Completion{From: fabric.AddrUnknown, Buf: b, Op: fabric.OpRecv}
		e.landing.Copy(&out[n], e.domain.arena.Bytes(b), pkt)
		if e.source {
			out[n].From = e.domain.addrOf(from)
		}
		if len(e.origins) < cap(e.origins) {
			out[n].Origin = uint16(len(e.origins))
			e.origins = append(e.origins, from)
		}
		in.drop()
		n++
	}
	return n
}

// AppendSource implements fabric.Sourcer.
func (e *endpoint) AppendSource(dst []byte, c *fabric.Completion) []byte {
	if int(c.Origin) >= len(e.origins) {
		return dst
	}
	name := makeName(e.origins[c.Origin])
	return append(dst, name[:]...)
}

func (e *endpoint) Recv(bufs []fabric.Buf) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	use := e.domain.use
	for i, b := range bufs {
		switch {
		case int64(b) >= int64(len(use)):
			return i, errBadBuf
		case use[b] != 0:
			return i, errBusyBuf
		case e.posted.Full():
			return i, fabric.ErrAgain
		}
		e.posted.Push(b)
		use[b] = inUseByRecv
	}
	return len(bufs), nil
}

// Land implements fabric.Lander. If Caps.Landing is true, Land always returns true, because a
// datagram stays in the receive queue until Poll reports it.
func (e *endpoint) Land(mem []byte, headBytes int) bool {
	if !e.caps.Landing {
		return false
	}
	e.landing = fabric.NewHeaderSplit(mem, headBytes)
	return true
}

// The method "pollable" reports whether a call of Poll would return a completion.
func (e *endpoint) pollable() bool {
	return e.sent.Len() > 0 || e.posted.Len() > 0 && e.inbox.waiting()
}

// Close closes the endpoint, and drops the datagrams in its receive queue. A second Close does
// nothing and returns nil.
func (e *endpoint) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	e.domain.nw.detach(e.number)
	e.inbox.shut()
	for e.sent.Len() > 0 {
		e.domain.use[e.sent.Pop()]--
	}
	for e.posted.Len() > 0 {
		e.domain.use[e.posted.Pop()] = 0
	}
	e.domain.forget(e)
	return nil
}
