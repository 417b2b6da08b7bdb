package bounded

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// Refusals counts connections that the Listener refused or closed for lack of room.
type Refusals struct {
	// Full counts new connections that were refused because the limit was reached and every
	// existing connection had been marked by Proven. Displaced counts connections not marked by
	// Proven that were closed to make room for a new connection.
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
	left   func() // called when the guest leaves, or nil; guarded by the Listener's lock
}

const (
	// toldTime is the time limit for writing the line with the reason to a connection that is about
	// to be closed.
	toldTime = 20 * time.Millisecond
	// When accepting a connection has failed, for example because the process has no free
	// descriptor, the Listener tries again after retryTime.
	retryTime = 20 * time.Millisecond
)

// NewListener takes over a listener, which the caller must not use afterwards. The argument most of
// NewListener is the largest number of open connections, and a value below 1 counts as 1. The
// argument told of NewListener is the line that is written to a connection that is about to be
// refused, or closed for lack of room.
func NewListener(l net.Listener, most int, told string) *Listener {
	return &Listener{listener: l, most: max(most, 1), told: told, closed: make(chan struct{})}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close implements net.Listener. Close does not close the connections that were accepted.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.listener.Close()
}

// CloseAll closes the listener and all accepted connections.
func (l *Listener) CloseAll() error {
	err := l.Close()
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, g := range l.guests {
		_ = g.Conn.Close() // ends the goroutine that serves the connection
	}
	return err
}

// Accept implements net.Listener. Accept returns an error only if the listener is closed, and that
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
// new goroutine, and closes the connection when fn returns. Serve returns when the goroutines of
// all connections have ended.
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

// Refusals returns the counts of connections that were refused or closed for lack of room.
func (l *Listener) Refusals() Refusals {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.refusals
}

// The method enter registers a new connection. If there is no room, or if the Listener is closed,
// enter returns nil.
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

// The method silent returns the index of the connection that must be closed to make room for a new
// one, or -1 if every connection was marked by Proven. The caller must hold the lock.
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

// remove makes the place of a guest free. The caller must hold the lock.
func (l *Listener) remove(i int) {
	if left := l.guests[i].left; left != nil {
		left()
	}
	l.guests = slices.Delete(l.guests, i, i+1)
}

// The function refuse writes the line told to a connection, and closes the connection. If the line
// cannot be written within toldTime, refuse closes the connection without it.
func refuse(conn net.Conn, told string) {
	if told != "" && conn.SetWriteDeadline(time.Now().Add(toldTime)) == nil {
		_, _ = conn.Write([]byte(told)) // the peer may be gone
	}
	_ = conn.Close() // nothing is lost by the close
}

// Proven marks the connection as one of a genuine client. After Proven, the Listener never closes
// the connection to make room for another.
func (g *Guest) Proven() {
	g.of.lock.Lock()
	defer g.of.lock.Unlock()
	g.proven = true
}

// onLeave has the listener call fn when the connection is closed or displaced. If that has
// happened already, onLeave returns false. The function fn must not block.
func (g *Guest) onLeave(fn func()) bool {
	g.of.lock.Lock()
	defer g.of.lock.Unlock()
	g.left = fn
	return slices.Contains(g.of.guests, g)
}

// Close implements net.Conn, and makes room for another connection.
func (g *Guest) Close() error {
	g.of.lock.Lock()
	if i := slices.Index(g.of.guests, g); i >= 0 {
		g.of.remove(i)
	}
	g.of.lock.Unlock()
	return g.Conn.Close()
}

// HostOf returns the text of the address a without the port.
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
