package bounded

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// Refusals holds the numbers of connections that the Listener refused or closed because of the
// limit on open connections.
type Refusals struct {
	// Full counts new connections that the Listener refused. The Listener refuses a new connection
	// if the limit on open connections is reached and all open connections are proven
	// (Guest.Proven). Displaced counts unproven open connections that the Listener closed in favour
	// of a new connection.
	Full, Displaced uint64
}

// Listener is a net.Listener with a limited number of open connections. The connection that Accept
// returns is a *Guest.
type Listener struct {
	listener net.Listener
	most     int
	told     string
	closed   chan struct{}
	close    sync.Once

	lock     sync.Mutex // guards the fields below
	guests   []*Guest   // the first to come first
	refusals Refusals
}

// Guest is an accepted connection of a Listener.
type Guest struct {
	net.Conn
	of     *Listener
	host   string
	proven bool   // guarded by the Listener's lock
	left   func() // called when the connection is closed, or nil; guarded by the Listener's lock
}

const (
	// toldTime is the time limit for writing the reason (the text "told") to a connection that the
	// Listener is about to close.
	toldTime = 20 * time.Millisecond
	// If accepting a connection fails, for example because the process has no free file descriptor,
	// the Listener tries again after retryTime.
	retryTime = 20 * time.Millisecond
)

// NewListener returns a Listener that accepts connections from l. After the call of NewListener,
// only the new Listener may use the listener l. The argument "most" is the largest number of open
// connections. A value of "most" below 1 counts as 1. The argument "told" is a line of text with a
// reason. The Listener writes this line to each connection that it refuses or replaces, before it
// closes the connection.
func NewListener(l net.Listener, most int, told string) *Listener {
	return &Listener{listener: l, most: max(most, 1), told: told, closed: make(chan struct{})}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close implements net.Listener. Close does not close connections that Accept has returned.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.listener.Close()
}

// CloseAll closes the Listener and all connections that Accept has returned.
func (l *Listener) CloseAll() error {
	err := l.Close()
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, g := range l.guests {
		_ = g.Conn.Close() // ends the goroutine that serves the connection
	}
	return err
}

// Accept implements net.Listener. Accept returns an error only if the Listener is closed, and this
// error wraps net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.listener.Accept()
		switch {
		case err == nil:
			if g := l.enter(conn); g != nil {
				return g, nil
			}
			refuse(conn, l.told)
		case errors.Is(err, net.ErrClosed):
			return nil, err
		default: // one connection has failed, or the process has no descriptor left
			select {
			case <-l.closed:
			case <-time.After(retryTime):
			}
		}
	}
}

// Serve accepts connections until the listener is closed. Serve runs fn for each connection on a
// new goroutine, and closes the connection when fn returns. After the listener is closed, Serve
// waits for the goroutines of all connections, and returns.
func (l *Listener) Serve(fn func(*Guest)) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		group.Go(func() {
			defer conn.Close()
			fn(conn.(*Guest)) //nolint:forcetypeassert // Accept returns nothing else.
		})
	}
}

// Refusals returns how many connections were refused or closed because of the limit on open
// connections.
func (l *Listener) Refusals() Refusals {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.refusals
}

// The method "enter" registers a new connection as a Guest. If the Listener is closed, or if its
// limit is reached and all open connections are proven (Guest.Proven), the method "enter" returns
// nil.
func (l *Listener) enter(conn net.Conn) *Guest {
	g := &Guest{Conn: conn, of: l, host: HostOf(conn.RemoteAddr())}
	l.lock.Lock()
	defer l.lock.Unlock()
	select {
	case <-l.closed: // CloseAll may have closed the connections already
		return nil
	default:
	}
	if len(l.guests) >= l.most {
		i := l.silent()
		if i < 0 {
			l.refusals.Full++
			return nil
		}
		l.refusals.Displaced++
		refuse(l.guests[i].Conn, l.told) // ends the goroutine that serves the connection
		l.remove(i)
	}
	l.guests = append(l.guests, g)
	return g
}

// The method "silent" returns the index in l.guests of the unproven connection that a new
// connection must replace, or -1 if every open connection is proven (Guest.Proven). The caller must
// hold the lock.
func (l *Listener) silent() int {
	count := make(map[string]int)
	for _, g := range l.guests {
		if !g.proven {
			count[g.host]++
		}
	}
	found, most := -1, 0
	for i, g := range l.guests {
		if !g.proven && count[g.host] > most {
			found, most = i, count[g.host]
		}
	}
	return found
}

// remove deletes the guest with index i from the open connections. The caller must hold the lock.
func (l *Listener) remove(i int) {
	if left := l.guests[i].left; left != nil {
		left()
	}
	l.guests = slices.Delete(l.guests, i, i+1)
}

// The function "refuse" writes the line "told" with the reason to a connection, and then closes the
// connection. If the line cannot be written within the time limit toldTime, the function "refuse"
// closes the connection without writing the line.
func refuse(conn net.Conn, told string) {
	if told != "" && conn.SetWriteDeadline(time.Now().Add(toldTime)) == nil {
		_, _ = conn.Write([]byte(told)) // the peer may be gone
	}
	_ = conn.Close() // nothing is lost by the close
}

// Proven marks the connection as proven, which means that its client has sent data that only a
// genuine client can send. The Listener never closes a proven connection in favour of a new
// connection.
func (g *Guest) Proven() {
	g.of.lock.Lock()
	defer g.of.lock.Unlock()
	g.proven = true
}

// onLeave registers the function fn, which the Listener calls when the program or the Listener
// closes the connection. The result of onLeave is true, or false if the connection was already
// closed, so that the Listener will not call fn. The function fn must not block.
func (g *Guest) onLeave(fn func()) bool {
	g.of.lock.Lock()
	defer g.of.lock.Unlock()
	g.left = fn
	return slices.Contains(g.of.guests, g)
}

// Close implements net.Conn, and removes the connection from the Listener's open connections.
func (g *Guest) Close() error {
	g.of.lock.Lock()
	if i := slices.Index(g.of.guests, g); i >= 0 {
		g.of.remove(i)
	}
	g.of.lock.Unlock()
	return g.Conn.Close()
}

// HostOf returns the network address "a" as text, without the port.
func HostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
