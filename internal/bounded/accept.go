package bounded

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Refusals holds the numbers of connections that the Listener refused or closed because of the
// limit on open connections.
type Refusals struct {
	// Full counts new connections that the Listener refused. The Listener refuses a new connection
	// if the limit on open connections is reached and all open connections are proven
	// (Guest.Proven). Displaced counts open connections that the Listener closed in favour of a new
	// connection.
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
	telling  chan struct{} // one element for each connection that is being told the reason

	lock     sync.Mutex // guards the fields below
	guests   []*Guest   // the longest silent first
	refusals Refusals
}

// Guest is an accepted connection of a Listener.
type Guest struct {
	net.Conn
	of   *Listener
	host string // see ShareOf

	// The Listener's lock guards the fields below.
	spoke  bool   // the client has sent what only a genuine client can send
	proven bool   // the connection is never closed in favour of a new connection
	left   func() // called when the connection is closed, or nil
}

const (
	// toldTime is the time limit for writing the reason (the text "told") to a connection that the
	// Listener is about to close.
	toldTime = 20 * time.Millisecond
	// tellingMax is the largest number of connections to which the Listener writes the reason at the
	// same time. While the Listener writes the reason to tellingMax connections, it closes further
	// connections without writing the reason.
	tellingMax = 32
	// If accepting a connection fails, for example because the process has no free file descriptor,
	// the Listener tries again after retryTime.
	retryTime = 20 * time.Millisecond
)

// NewListener returns a Listener that accepts connections from l. After the call of NewListener,
// only the new Listener may use the listener l. The argument "most" of NewListener is the largest
// number of open connections. A value of "most" below 1 counts as 1. The argument "told" of
// NewListener is a line of text with a reason, which the Listener writes to each connection that it
// refuses or replaces, before it closes the connection. The Listener writes the reason to at most
// tellingMax connections at the same time.
func NewListener(l net.Listener, most int, told string) *Listener {
	return &Listener{
		listener: l, most: max(most, 1), told: told, closed: make(chan struct{}),
		telling: make(chan struct{}, tellingMax),
	}
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
			g, out := l.enter(conn)
			if out != nil {
				l.refuse(out)
			}
			if g != nil {
				return g, nil
			}
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

// The method "enter" registers a new connection as a Guest. If the limit on open connections is
// reached, "enter" also returns the Guest that the new connection replaces, as the result "out". If
// the Listener is closed, or if its limit is reached and all open connections are proven
// (Guest.Proven), the result "g" is nil, and "out" is the new connection.
func (l *Listener) enter(conn net.Conn) (g, out *Guest) {
	g = &Guest{Conn: conn, of: l, host: ShareOf(conn.RemoteAddr())}
	l.lock.Lock()
	defer l.lock.Unlock()
	select {
	case <-l.closed: // CloseAll may have closed the connections already
		return nil, g
	default:
	}
	if len(l.guests) >= l.most {
		i := l.yields(g.host)
		if i < 0 {
			l.refusals.Full++
			return nil, g
		}
		l.refusals.Displaced++
		out = l.guests[i]
		l.guests = slices.Delete(l.guests, i, i+1)
	}
	l.guests = append(l.guests, g)
	return g, out
}

// The method "yields" returns the index in l.guests of the connection that a new connection from
// the given host must replace, or -1 if every open connection is proven (Guest.Proven). The method
// "yields" considers the hosts with the most unproven connections, where the new connection counts
// for its host. Of the unproven connections of these hosts, the method "yields" selects the oldest
// for which Spoke was never called, or otherwise the one with the longest time since the latest
// call of Spoke. The caller must hold the lock.
func (l *Listener) yields(host string) int {
	count := map[string]int{host: 1}
	for _, g := range l.guests {
		if !g.proven {
			count[g.host]++
		}
	}
	found := -1
	for i, g := range l.guests {
		if !g.proven && (found < 0 || g.yieldsBefore(l.guests[found], count)) {
			found = i
		}
	}
	return found
}

// yieldsBefore reports whether a new connection should replace connection g instead of the
// connection "other", whose client has been silent for longer. The map "count" contains the number
// of unproven connections of each host.
func (g *Guest) yieldsBefore(other *Guest, count map[string]int) bool {
	if more := count[g.host] - count[other.host]; more != 0 {
		return more > 0
	}
	return other.spoke && !g.spoke
}

// The method "refuse" closes a connection that is not registered any more. Before the close, the
// method writes the reason on a new goroutine, unless tellingMax such goroutines are running.
// Because of the new goroutine, a peer that does not read does not delay other connections.
func (l *Listener) refuse(g *Guest) {
	select {
	case l.telling <- struct{}{}:
		go func() {
			refuse(g, l.told)
			<-l.telling
		}()
	default:
		refuse(g, "")
	}
}

// The function "refuse" writes the line "told" with the reason to a connection that is not
// registered any more, and then closes the connection. If the line cannot be written within the
// time limit toldTime, the function "refuse" closes the connection without writing the line.
func refuse(g *Guest, told string) {
	if told != "" && g.Conn.SetWriteDeadline(time.Now().Add(toldTime)) == nil {
		_, _ = g.Conn.Write([]byte(told)) // the peer may be gone
	}
	_ = g.Conn.Close() // nothing is lost by the close, which ends the goroutine of the connection
	g.gone()
}

// Spoke tells the Listener that the client has just sent data that only a genuine client can send.
// If the Listener must close a connection of a host, it first chooses connections for which Spoke
// was never called, and then those with the longest time since the latest call of Spoke.
func (g *Guest) Spoke() {
	l := g.of
	l.lock.Lock()
	defer l.lock.Unlock()
	g.spoke = true
	if i := slices.Index(l.guests, g); i >= 0 {
		l.guests = append(slices.Delete(l.guests, i, i+1), g)
	}
}

// Proven marks the connection as proven: the program now serves the client. The Listener never
// closes a proven connection in favour of a new connection. Proven reports whether the connection
// is open. If the result of Proven is false, the Listener or the program has already closed the
// connection.
func (g *Guest) Proven() bool {
	g.of.lock.Lock()
	defer g.of.lock.Unlock()
	g.proven = true
	return slices.Contains(g.of.guests, g)
}

// OnLeave registers the function fn, which is called once, after the program or the Listener has
// closed the connection. OnLeave returns true, or false if the connection was already closed. If
// OnLeave returns false, fn will never be called. CloseAll does not call fn. A second call of
// OnLeave replaces the function.
func (g *Guest) OnLeave(fn func()) bool {
	g.of.lock.Lock()
	defer g.of.lock.Unlock()
	if !slices.Contains(g.of.guests, g) {
		return false
	}
	g.left = fn
	return true
}

// The method "gone" calls the function that was registered with OnLeave. Before calling the method
// "gone", the caller must remove the connection from the Listener's open connections, and close it.
func (g *Guest) gone() {
	g.of.lock.Lock()
	left := g.left
	g.of.lock.Unlock()
	if left != nil {
		left()
	}
}

// Close implements net.Conn, and removes the connection from the Listener's open connections.
func (g *Guest) Close() error {
	l := g.of
	l.lock.Lock()
	i := slices.Index(l.guests, g)
	if i >= 0 {
		l.guests = slices.Delete(l.guests, i, i+1)
	}
	l.lock.Unlock()
	err := g.Conn.Close()
	if i >= 0 {
		g.gone()
	}
	return err
}

// ShareOf returns the part of a network address that all connections of a host have in common,
// which is the IPv4 address or the first half of the IPv6 address. An IPv6 host can choose the
// second half of its address freely.
func ShareOf(a net.Addr) string {
	const networkBits = 64
	host := HostOf(a)
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Is4() {
		return host
	}
	return netip.PrefixFrom(ip.WithZone(""), networkBits).Masked().String()
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
