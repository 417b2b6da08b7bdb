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

// The type "counts" holds counters of events, which the attributes of the Domain's Info show.
type counts struct {
	again     uint64 // Post found no room
	refused   uint64 // sends that failed
	pending   uint64 // socket errors that one system call reported and the next one did not
	gsoSingly uint64 // runs that were sent again as single datagrams
	misfit    uint64 // coalesced messages that had to be copied into buffers
	dropped   uint64 // coalesced datagrams without room
	overflown uint64 // packets that the kernel dropped at closed sockets; see socket.drops
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
}

// The type "endpoint" implements fabric.Endpoint. Only the goroutine that uses the domain may use
// its endpoints.
type endpoint struct {
	domain *domain
	sock   *socket
	caps   fabric.Caps
	closed bool
	counts counts
	tx     sender
	rx     receiver
	// recvAsked is the requested size of the socket's receive buffer in bytes.
	recvAsked int
}

var _ fabric.Endpoint = (*endpoint)(nil)

// newEndpoint makes an endpoint that owns the given socket. If newEndpoint fails, it closes the
// socket and returns an error.
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
			Source:          cfg.Source,
		},
	}
	e.recvAsked = cfg.RecvBufferBytes
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
	return c
}

var _ fabric.Overrunner = (*endpoint)(nil)

// Overruns implements fabric.Overrunner.
func (e *endpoint) Overruns() uint64 {
	c := e.total()
	return c.overflown
}

var _ fabric.Backlogger = (*endpoint)(nil)

// Backlog implements fabric.Backlogger.
func (e *endpoint) Backlog() (usedBytes, sizeBytes int) {
	if e.closed {
		return 0, 0
	}
	used, err := unix.IoctlGetInt(e.sock.fd, unix.SIOCOUTQ)
	if err != nil {
		return 0, 0
	}
	return used, e.sock.sendBytes
}

func (e *endpoint) pollable() bool { return e.rx.deliverable() }

// Close closes the endpoint, and drops the datagrams in the receive buffer. A second Close does
// nothing and returns nil.
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
	d.sleeper.forget(e.sock)
	err := e.sock.close()
	e.rx.release()
	return err
}
