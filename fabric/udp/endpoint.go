//go:build linux

package udp

import (
	"slices"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

var (
	errUnknownAddr = failure("send", unix.EINVAL, "unknown or removed peer address")
	errRemoveAddr  = failure("remove", unix.EINVAL, "unknown or removed peer address")
	errBadBuf      = failure("post", unix.EINVAL, "buffer outside the arena")
	errTooLong     = failure("send", unix.EMSGSIZE, "datagram larger than the buffer or the MTU")
	errBadRegion   = failure("send", unix.EINVAL, "unknown region, or bytes outside it")
	errDropRegion  = failure("deregister", unix.EINVAL, "unknown region")
)

func failure(op string, errno unix.Errno, text string) error {
	return &fabric.Error{Provider: family, Op: op, Errno: int(errno), Text: text}
}

// The type counts has counters of events, which the attributes of the Domain's Info show.
type counts struct {
	again     uint64 // Post found no room
	refused   uint64 // sends that failed
	pending   uint64 // socket errors that one call reported and the next did not
	gsoSingly uint64 // runs that were sent again as single datagrams
	misfit    uint64 // coalesced messages that had to be copied into buffers
	dropped   uint64 // coalesced datagrams without room
	overflown uint64 // packets that the kernel dropped at closed sockets; see socket.drops
	connects  uint64 // sockets connected to a peer
	direct    uint64 // messages sent through connected sockets
}

type namedCount struct {
	name  string
	value uint64
}

func (c *counts) list() []namedCount {
	return []namedCount{
		{"posts that found no room", c.again},
		{"sends refused", c.refused},
		{"socket errors survived", c.pending},
		{"runs sent singly", c.gsoSingly},
		{"coalesced runs copied", c.misfit},
		{"datagrams dropped", c.dropped},
		{fabric.OverrunsAttr, c.overflown},
		{"sockets connected to a peer", c.connects},
		{"messages sent through them", c.direct},
	}
}

func (c *counts) add(o *counts) {
	c.again += o.again
	c.refused += o.refused
	c.pending += o.pending
	c.gsoSingly += o.gsoSingly
	c.misfit += o.misfit
	c.dropped += o.dropped
	c.overflown += o.overflown
	c.connects += o.connects
	c.direct += o.direct
}

// endpoint implements fabric.Endpoint, and belongs to its domain's goroutine.
type endpoint struct {
	domain *domain
	sock   *socket
	caps   fabric.Caps
	closed bool
	counts counts
	tx     sender
	rx     receiver
	direct direct
	// recvAsked is the size in bytes that was requested for the receive buffer.
	recvAsked int
	pathSize  bool // ICMP reports of the path MTU are believed
}

var _ fabric.Endpoint = (*endpoint)(nil)

// newEndpoint makes an endpoint that owns the given socket. If newEndpoint returns an error, it has
// closed the socket.
func newEndpoint(d *domain, s *socket, cfg fabric.EndpointConfig) (*endpoint, error) {
	e := &endpoint{
		domain: d,
		sock:   s,
		caps: fabric.Caps{
			MTUBytes:        d.mtuBytes,
			InjectBytes:     d.mtuBytes, // the kernel has copied the datagram when Post returns
			TxDepth:         cfg.TxDepth,
			RxDepth:         cfg.RxDepth,
			RecvCapacity:    inet.Capacity(s.recvBytes, d.mtuBytes),
			RecvFixedBytes:  inet.FixedBytes,
			RecvFullBytes:   inet.TruesizeBytes(d.mtuBytes),
			RecvBufferBytes: s.recvBytes,
			Gather:          true,
			FreeRegions:     true,
			Landing:         true,
			Source:          cfg.Source,
		},
	}
	e.recvAsked, e.pathSize = cfg.RecvBufferBytes, cfg.PathSize
	e.direct = newDirect(d.options)
	e.tx.init(e, s.have.gso)
	if err := e.rx.init(e, cfg.RxDepth); err != nil {
		_ = s.close()
		return nil, err
	}
	return e, nil
}

func (e *endpoint) Caps() fabric.Caps { return e.caps }

func (e *endpoint) Name() []byte { return inet.EncodeName(e.sock.name) }

func (e *endpoint) total() counts {
	c := e.counts
	c.overflown += e.sock.drops()
	if e.direct.sock != nil {
		c.overflown += e.direct.sock.drops()
	}
	return c
}

var _ fabric.Overrunner = (*endpoint)(nil)

// Overruns implements fabric.Overrunner.
func (e *endpoint) Overruns() uint64 {
	c := e.total()
	return c.overflown
}

func (e *endpoint) pollable() bool { return e.rx.deliverable() }

// Close closes the endpoint. Datagrams in the receive buffer are lost. A second Close does nothing
// and returns nil.
func (e *endpoint) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	d := e.domain
	total := e.total()
	d.past.add(&total)
	if i := slices.Index(d.endpoints, e); i >= 0 {
		d.endpoints = slices.Delete(d.endpoints, i, i+1)
	}
	e.closeDirect()
	d.sleeper.forget(e.sock)
	err := e.sock.close()
	e.rx.release()
	return err
}
