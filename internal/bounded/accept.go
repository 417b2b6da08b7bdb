package bounded

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// Refusals counts those who found no place.
type Refusals struct {
	// Full came while all others were proven; Displaced were silent when another one came.
	Full, Displaced uint64
}

// Listener is a net.Listener that has at most so many guests at once: connections that it has
// accepted and that are not closed. Accept returns a *Guest.
type Listener struct {
	listener net.Listener
	most     int
	told     string
	closed   chan struct{}
	close    sync.Once

	lock     sync.Mutex // guards what follows
	guests   []*Guest   // the first to come first
	refusals Refusals
}

// Guest is a connection of a Listener.
type Guest struct {
	net.Conn
	of     *Listener
	host   string
	proven bool // guarded by the Listener's lock
}

const (
	// toldTime bounds the writing of a line into a buffer that is mostly empty.
	toldTime = 20 * time.Millisecond
	// retryTime is between two tries to accept while the process has no descriptor left, say.
	retryTime = 20 * time.Millisecond
)

// NewListener takes over a listener. At most most guests are there at once, at least one; told is
// what is written to those who find no place, and to those who lose theirs.
func NewListener(l net.Listener, most int, told string) *Listener {
	return &Listener{listener: l, most: max(most, 1), told: told, closed: make(chan struct{})}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close implements net.Listener. The guests stay.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.listener.Close()
}

// Accept implements net.Listener. Its only error is that of a closed listener, which wraps
// net.ErrClosed.
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

// Serve accepts until the listener is closed, has fn serve each guest on a goroutine of its own,
// and returns when all of them have ended. It closes a guest when fn returns.
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

// Refusals returns how many have found no place so far.
func (l *Listener) Refusals() Refusals {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.refusals
}

// enter gives a connection a place, or returns nil.
func (l *Listener) enter(conn net.Conn) *Guest {
	g := &Guest{Conn: conn, of: l, host: hostOf(conn.RemoteAddr())}
	l.lock.Lock()
	defer l.lock.Unlock()
	if len(l.guests) >= l.most {
		i := l.silent()
		if i < 0 {
			l.refusals.Full++
			return nil
		}
		l.refusals.Displaced++
		refuse(l.guests[i].Conn, l.told) // ends what serves it
		l.guests = slices.Delete(l.guests, i, i+1)
	}
	l.guests = append(l.guests, g)
	return g
}

// silent finds the guest that gives its place to another one, -1 if there is none. The lock
// is held.
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

// refuse tells a connection why it ends, if it has room for a line.
func refuse(conn net.Conn, told string) {
	if told != "" && conn.SetWriteDeadline(time.Now().Add(toldTime)) == nil {
		_, _ = conn.Write([]byte(told)) // it may have gone
	}
	_ = conn.Close() // nothing is lost with it
}

// Proven says that the guest has said what only a peer says: it keeps its place until Close.
func (g *Guest) Proven() {
	g.of.lock.Lock()
	defer g.of.lock.Unlock()
	g.proven = true
}

// Close implements net.Conn, and gives the place back.
func (g *Guest) Close() error {
	g.of.lock.Lock()
	if i := slices.Index(g.of.guests, g); i >= 0 {
		g.of.guests = slices.Delete(g.of.guests, i, i+1)
	}
	g.of.lock.Unlock()
	return g.Conn.Close()
}

// hostOf is the address without its port.
func hostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
