package net

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

// The type "endpoint" implements fabric.Endpoint. Only the goroutine that uses the domain may
// access the fields of an endpoint, except the field "inbox", which has its own lock.
type endpoint struct {
	domain *domain
	conn   *net.UDPConn
	name   netip.AddrPort
	caps   fabric.Caps
	out    *sender
	inbox  *inbox
	closed bool

	origins []netip.AddrPort // senders of the datagrams that the latest Poll has reported

	lastFrom netip.AddrPort // of the last datagram
	lastAddr fabric.Addr
	lastSeq  uint64 // number of changes of the peer table when lastAddr was looked up
}

var (
	_ fabric.Endpoint = (*endpoint)(nil)
	_ fabric.Sourcer  = (*endpoint)(nil)
)

// newEndpoint makes an endpoint that owns the given socket, and starts the endpoint's reader
// goroutine.
func newEndpoint(d *domain, s socket, cfg fabric.EndpointConfig) (*endpoint, error) {
	out, err := newSender(s.conn)
	if err != nil {
		_ = s.conn.Close()
		return nil, newError("send", err)
	}
	e := &endpoint{
		domain: d,
		conn:   s.conn,
		name:   s.name,
		caps: fabric.Caps{
			MTUBytes:        d.mtuBytes,
			InjectBytes:     d.mtuBytes, // the system has copied the datagram when Post returns
			TxDepth:         cfg.TxDepth,
			RxDepth:         cfg.RxDepth,
			RecvCapacity:    inet.Capacity(s.recvBytes, d.mtuBytes),
			RecvBufferBytes: s.recvBytes,
			Source:          cfg.Source,
		},
		inbox:   newInbox(cfg.RxDepth),
		origins: make([]netip.AddrPort, 0, cfg.RxDepth),
		lastSeq: 1<<64 - 1,
	}
	e.out = out
	go e.inbox.read(s.conn, d.buffers, d.bell, d.polls)
	return e, nil
}

func (e *endpoint) Caps() fabric.Caps { return e.caps }

func (e *endpoint) Name() []byte { return inet.EncodeName(e.name) }

// Post implements fabric.Endpoint. The error ErrAgain of Post means that the socket's send buffer
// or the device's send queue is full. On Windows, Post does not return ErrAgain for a full send
// buffer, but waits until there is room.
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
	bufs := &e.domain.buffers
	to := e.domain.peers.get(s.To)
	switch {
	case uint64(s.Buf) >= uint64(bufs.count):
		return errBadBuf
	case to == nil:
		return errUnknownAddr
	case s.Region != 0:
		return fabric.ErrNotSupported
	case uint64(s.Len) > uint64(e.domain.mtuBytes):
		return errTooLong
	}
	if err := e.out.send(bufs.bytes(s.Buf)[:s.Len], to); err != nil {
		return sendError(err)
	}
	return nil
}

func sendError(err error) error {
	errno := errnoOf(err)
	switch {
	case errors.Is(err, net.ErrClosed):
		return fabric.ErrClosed
	case errno == syscall.ENOBUFS || errno == syscall.ENOMEM || errno == syscall.EAGAIN:
		return fabric.ErrAgain
	}
	return newError("send", err)
}

// Poll implements fabric.Endpoint. After vainMost consecutive calls without a completion, Poll
// parks the calling goroutine for up to parkTime.
func (e *endpoint) Poll(out []fabric.Completion) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	var err error
	e.origins, err = e.inbox.take(out, e.origins[:0])
	n := len(e.origins)
	if e.caps.Source {
		for i, from := range e.origins {
			out[i].From = e.from(from)
		}
	}
	if n == 0 {
		if err == nil {
			e.domain.giveWay()
		}
		return 0, err
	}
	e.domain.vain = 0
	return n, nil // The next Poll reports the error.
}

// The method "from" returns the Addr of the sender with the given name, and keeps name and Addr in
// a cache with one entry.
func (e *endpoint) from(name netip.AddrPort) fabric.Addr {
	peers := &e.domain.peers
	if name != e.lastFrom || e.lastSeq != peers.changes {
		e.lastFrom, e.lastSeq, e.lastAddr = name, peers.changes, peers.find(name)
	}
	return e.lastAddr
}

// AppendSource implements fabric.Sourcer.
func (e *endpoint) AppendSource(dst []byte, c *fabric.Completion) []byte {
	if int(c.Origin) >= len(e.origins) || !e.origins[c.Origin].IsValid() {
		return dst
	}
	return inet.AppendName(dst, e.origins[c.Origin])
}

// Recv implements fabric.Endpoint.
func (e *endpoint) Recv(bufs []fabric.Buf) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	count := uint64(e.domain.buffers.count)
	for i, b := range bufs {
		if uint64(b) >= count {
			n, err := e.inbox.post(bufs[:i])
			if err == nil {
				err = errBadBuf
			}
			return n, err
		}
	}
	return e.inbox.post(bufs)
}

// Close closes the endpoint. A second Close does nothing and returns nil. Close drops received
// datagrams that Poll has not returned. When Close returns, the reader goroutine has ended.
func (e *endpoint) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	d := e.domain
	if i := slices.Index(d.endpoints, e); i >= 0 {
		d.endpoints = slices.Delete(d.endpoints, i, i+1)
	}
	e.inbox.shut()
	err := e.conn.Close()
	<-e.inbox.ended
	return err
}
