package conn

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"

	"gobtl/btl"
	"gobtl/btl/runner"
)

// network is the name of this kind of network.
const network = "btl"

// Addr is the address of one end of a Conn.
type Addr struct {
	// Address is that of the module: a host and a port, which net.SplitHostPort takes. Over a fabric
	// without textual addresses the host is the module's name in hexadecimal, and the port 0.
	Address string
	Service string
}

// localAddress is the Address of a module of this side. Without a textual address it is the name
// that peers connect by.
func localAddress(m *btl.Module) string {
	if a := m.Address(); a != "" {
		return hostPort(a)
	}
	return hostPort(hex.EncodeToString(m.Name()))
}

// hostPort converts an address to the host:port form of package net, if it is not in that form.
func hostPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return net.JoinHostPort(address, "0")
	}
	return address
}

// Network is "btl".
func (Addr) Network() string { return network }

// String is the module's address; behind it, after a slash, the service, if it has a name.
func (a Addr) String() string {
	if a.Service == "" {
		return a.Address
	}
	return a.Address + "/" + a.Service
}

// Listener accepts Conns of one service: a net.Listener.
type Listener struct {
	n       *Node
	service string

	// Fields of the goroutine that drives the module.
	backlog []*Conn
	of      map[string]int // of the backlog, by the peer's address
	accepts []*request
	closed  bool
}

// Listen begins to accept Conns of a service, whose name, which may be empty, has 255 bytes at
// most. Errors: ErrInUse, ErrService, net.ErrClosed.
func (n *Node) Listen(service string) (*Listener, error) {
	l := &Listener{n: n, service: service, of: map[string]int{}}
	err := n.r.Do(context.Background(), func(*btl.Module) error {
		switch {
		case n.closed:
			return net.ErrClosed
		case n.listeners[service] != nil:
			return fmt.Errorf("%w: %q", ErrInUse, service)
		case len(service) > serviceBytes:
			return fmt.Errorf("%w: its name has %d bytes, at most %d", ErrService, len(service),
				serviceBytes)
		}
		n.listeners[service] = l
		return nil
	})
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: l.Addr(), Err: err}
	}
	return l, nil
}

// Accept waits for a Conn. Errors: net.ErrClosed, or the error that ended the Runner.
func (l *Listener) Accept() (net.Conn, error) {
	var q request
	err := l.n.r.Await(context.Background(), func(_ *btl.Module, w runner.Waker) error {
		q.w = w
		switch {
		case l.closed:
			return net.ErrClosed
		case len(l.backlog) > 0:
			q.conn = l.take(0)
			q.conn.advance() // It may be over.
			w.Wake(nil)
		default:
			l.accepts = append(l.accepts, &q)
		}
		return nil
	})
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: network, Addr: l.Addr(), Err: err}
	}
	return q.conn, nil
}

// Close closes the Listener, and the Conns in its backlog. Accepted Conns are not affected.
func (l *Listener) Close() error {
	return l.n.r.Do(context.Background(), func(*btl.Module) error {
		if l.closed {
			return &net.OpError{Op: "close", Net: network, Addr: l.Addr(), Err: net.ErrClosed}
		}
		l.close()
		return nil
	})
}

// Addr returns the Listener's address, an Addr.
func (l *Listener) Addr() net.Addr { return Addr{Address: l.n.local, Service: l.service} }

func (l *Listener) close() {
	l.closed = true
	delete(l.n.listeners, l.service)
	for _, q := range l.accepts {
		q.w.Wake(net.ErrClosed)
	}
	for len(l.backlog) > 0 {
		l.take(len(l.backlog) - 1).close()
	}
	l.accepts = nil
}

// take removes a Conn from the backlog.
func (l *Listener) take(i int) *Conn {
	c := l.backlog[i]
	l.backlog = slices.Delete(l.backlog, i, i+1)
	if l.of[c.remote.Address]--; l.of[c.remote.Address] == 0 {
		delete(l.of, c.remote.Address)
	}
	c.backlog = nil
	return c
}

// mayOffer says whether the backlog has room for a Conn of a peer's address.
func (l *Listener) mayOffer(address string) bool {
	free := l.n.cfg.Backlog - len(l.backlog)
	return len(l.accepts) > 0 || free > 0 && l.of[address] <= free
}

// offer gives a Conn to a waiting Accept, or adds it to the backlog.
func (l *Listener) offer(c *Conn) {
	if len(l.accepts) == 0 {
		l.backlog = append(l.backlog, c)
		l.of[c.remote.Address]++
		c.backlog = l
		return
	}
	q := l.accepts[0]
	l.accepts = l.accepts[1:]
	q.conn = c
	q.w.Wake(nil)
}
