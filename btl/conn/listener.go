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

const network = "btl"

// Addr is the address of one end of a Conn.
type Addr struct {
	// Address is the host and port of the module, in the form of net.SplitHostPort. If the fabric
	// has no textual addresses, the host in Address is the module's name in hexadecimal, and the
	// port is 0.
	Address string
	Service string
}

// localAddress returns the address of a module in the form of Addr.Address. If the module has no
// textual address, localAddress returns the module's name in hexadecimal, with the port 0.
func localAddress(m *btl.Module) string {
	if a := m.Address(); a != "" {
		return hostPort(a)
	}
	return hostPort(hex.EncodeToString(m.Name()))
}

func hostPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return net.JoinHostPort(address, "0")
	}
	return address
}

// Network returns "btl".
func (Addr) Network() string { return network }

// String returns the module's address, followed by a slash and the name of the service unless this
// name is empty.
func (a Addr) String() string {
	if a.Service == "" {
		return a.Address
	}
	return a.Address + "/" + a.Service
}

// Listener accepts Conns of one service. A Listener implements net.Listener.
type Listener struct {
	n       *Node
	service string

	// Only the goroutine that drives the module may use the field "backlog" of a Listener and the
	// fields after it.
	backlog []*Conn
	of      map[string]int // number of Conns in the backlog, by peer host
	accepts []*request
	closed  bool
}

// Listen makes a Listener that accepts the Conns of a service. The service's name has at most 255
// bytes, and can be empty. Listen returns ErrInUse if the service already has a Listener,
// ErrService for a longer name, and net.ErrClosed after Close of the Node.
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

// Accept waits until a peer opens a Conn, and returns the Conn. The error of Accept is
// net.ErrClosed, or the error that ended the Runner.
func (l *Listener) Accept() (net.Conn, error) {
	var q request
	err := l.n.r.Await(context.Background(), func(_ *btl.Module, w runner.Waker) error {
		q.w = w
		switch {
		case l.closed:
			return net.ErrClosed
		case len(l.backlog) > 0:
			q.conn = l.take(0)
			q.conn.advance() // The Conn might have ended.
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

// Close closes the Listener and the Conns in its backlog. Conns that Accept has returned stay open.
func (l *Listener) Close() error {
	return l.n.r.Do(context.Background(), func(*btl.Module) error {
		if l.closed {
			return &net.OpError{Op: "close", Net: network, Addr: l.Addr(), Err: net.ErrClosed}
		}
		l.close()
		return nil
	})
}

// Addr returns the address of the service, as an Addr.
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

func (l *Listener) take(i int) *Conn {
	c := l.backlog[i]
	l.backlog = slices.Delete(l.backlog, i, i+1)
	host := c.ep.PeerHost()
	if l.of[host]--; l.of[host] == 0 {
		delete(l.of, host)
	}
	c.backlog = nil
	return c
}

// mayOffer reports whether an Accept waits for a new Conn, or the backlog has room for a new Conn
// from the given host.
func (l *Listener) mayOffer(host string) bool {
	free := l.n.cfg.Backlog - len(l.backlog)
	return len(l.accepts) > 0 || free > 0 && l.of[host] <= free
}

// The method "offer" passes a Conn to a waiting Accept, or adds the Conn to the backlog if no
// Accept waits.
func (l *Listener) offer(c *Conn) {
	if len(l.accepts) == 0 {
		l.backlog = append(l.backlog, c)
		l.of[c.ep.PeerHost()]++
		c.backlog = l
		return
	}
	q := l.accepts[0]
	l.accepts = l.accepts[1:]
	q.conn = c
	q.w.Wake(nil)
}
