package conn

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/internal/byhost"
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
	backlog byhost.Turns[*Conn] // its hosts take turns in Accept; the oldest Conn of a host is first
	accepts []*request
	closed  bool
}

// Listen makes a Listener that accepts the Conns of a service. The service's name has at most 255
// bytes, and can be empty. Listen returns ErrInUse if the service already has a Listener,
// ErrService for a longer name, and net.ErrClosed after Close of the Node.
func (n *Node) Listen(service string) (*Listener, error) {
	l := &Listener{n: n, service: service}
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

// Accept waits until a peer opens a Conn, and returns the Conn. If several Conns wait for Accept,
// their hosts take turns, one Conn each, and the Conns of a host are returned in the order in which
// they have arrived. The error of Accept is net.ErrClosed, or the error that ended the Runner.
func (l *Listener) Accept() (net.Conn, error) {
	var q request
	err := l.n.r.Await(context.Background(), func(_ *btl.Module, w runner.Waker) error {
		q.w = w
		switch {
		case l.closed:
			return net.ErrClosed
		case l.backlog.Waiting() > 0:
			first := l.backlog.First()
			l.backlog.Done(first, false)
			l.take(first.What)
			q.conn = first.What
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
	for l.backlog.Waiting() > 0 {
		c := l.backlog.First().What
		l.take(c)
		c.close()
	}
	l.accepts = nil
}

// The method "take" removes a Conn from the backlog.
func (l *Listener) take(c *Conn) {
	l.backlog.Leave(c.place)
	c.backlog, c.place = nil, nil
}

// mayOffer reports whether an Accept waits for a new Conn, or the backlog has room for a new Conn
// from the given host.
func (l *Listener) mayOffer(host string) bool {
	free := l.n.cfg.Backlog - l.backlog.Waiting()
	return len(l.accepts) > 0 || free > 0 && l.backlog.Members(host) <= free
}

// The method "offer" passes a Conn to a waiting Accept, or adds the Conn to the backlog if no
// Accept waits.
func (l *Listener) offer(c *Conn) {
	if len(l.accepts) == 0 {
		c.backlog, c.place = l, &byhost.Member[*Conn]{What: c}
		l.backlog.Enter(c.place, c.ep.PeerHost())
		l.backlog.Wait(c.place)
		return
	}
	q := l.accepts[0]
	l.accepts = l.accepts[1:]
	q.conn = c
	q.w.Wake(nil)
}
