package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// runAside runs fn on a goroutine of its own.
func runAside(fn func()) { go fn() }

// pause waits a moment, or for ctx.
func pause(ctx context.Context) error {
	t := time.NewTimer(pauseTime)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Meeting is an address at which peers come to exchange identities, one line each over TCP.
type Meeting struct {
	listener net.Listener
	guests   chan guest
	closed   chan struct{}
	close    sync.Once

	lock   sync.Mutex // guards what follows
	silent []net.Conn // who have not said their line, the first to come first
	inside int        // all who are there
}

// guest is one who has come and said a line.
type guest struct {
	conn net.Conn
	line string
}

const (
	// meetLine is the time that a peer has for its line, and that it waits for an Exchange.
	meetLine = 5 * time.Second
	// guestsMax bounds those who are there at once. One more takes the place of who has been silent
	// for longest; where all have said their line it is sent away.
	guestsMax = 64
)

// Listen opens a meeting at "host:port"; port 0 picks one. It listens until Close.
func Listen(address string) (*Meeting, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExchange, err)
	}
	m := &Meeting{listener: l, guests: make(chan guest), closed: make(chan struct{})}
	go m.accept()
	return m, nil
}

// Addr is the address to connect to.
func (m *Meeting) Addr() net.Addr { return m.listener.Addr() }

// Close ends the meeting.
func (m *Meeting) Close() error {
	m.close.Do(func() { close(m.closed) })
	return m.listener.Close()
}

func (m *Meeting) accept() {
	for {
		conn, err := m.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			_ = pause(context.Background()) // out of descriptors, say
			continue
		}
		if !m.enter(conn) {
			_ = conn.SetDeadline(time.Now().Add(pauseTime)) // a few bytes into an empty buffer
			fmt.Fprintln(conn, busyLine)
			conn.Close()
			continue
		}
		go func() {
			m.hear(conn)
			m.lock.Lock()
			defer m.lock.Unlock()
			m.inside--
		}()
	}
}

// enter lets somebody in who will say a line, and returns false if there is no place.
func (m *Meeting) enter(conn net.Conn) bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	switch {
	case m.inside < guestsMax:
	case len(m.silent) == 0:
		return false
	default:
		m.silent[0].Close() // whoever listens to it ends
		m.silent = m.silent[1:]
	}
	m.inside++
	m.silent = append(m.silent, conn)
	return true
}

// spoke notes that somebody is not silent any more.
func (m *Meeting) spoke(conn net.Conn) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if i := slices.Index(m.silent, conn); i >= 0 {
		m.silent = slices.Delete(m.silent, i, i+1)
	}
}

// hear listens to one who came, and has it wait for an Exchange, which then owns the connection.
func (m *Meeting) hear(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(meetLine)) // else the read below blocks until the peer ends
	line, err := meetingLine(conn)
	m.spoke(conn)
	if err == nil {
		_, err = ParseIdentity(line)
	}
	if err != nil {
		fmt.Fprintf(conn, "%s%v\n", refusal, err)
		conn.Close()
		return
	}
	busy := time.NewTimer(meetLine)
	defer busy.Stop()
	select {
	case m.guests <- guest{conn, line}:
	case <-busy.C:
		fmt.Fprintln(conn, busyLine)
		conn.Close()
	case <-m.closed:
		conn.Close()
	}
}

// The lines of a meeting that are no identity: that it will never fit, or does not now.
const (
	refusal  = "no: "
	busyLine = "later"
)

// Exchange waits for the next peer and swaps identities with it. Those who do not say who they are
// in five seconds, or have the wrong role, are sent away with a line that says so, and keep nobody
// else waiting. Several Exchanges may wait at once; each gets another peer.
func (m *Meeting) Exchange(ctx context.Context, mine Identity) (Identity, error) {
	for {
		select {
		case g := <-m.guests:
			_ = g.conn.SetDeadline(time.Now().Add(meetLine)) // a few bytes into an empty buffer
			id, err := expect(g.line, mine)
			if err == nil {
				_, err = fmt.Fprintf(g.conn, "%v\n", mine)
			} else {
				fmt.Fprintf(g.conn, "%s%v\n", refusal, err)
			}
			g.conn.Close()
			if err == nil {
				return id, nil
			}
		case <-m.closed:
			return Identity{}, fmt.Errorf("%w: the meeting is closed", ErrExchange)
		case <-ctx.Done():
			return Identity{}, fmt.Errorf("%w: nobody came to %v: %w", ErrTimeout, m.Addr(), ctx.Err())
		}
	}
}

// meetingLine reads a line of bounded length.
func meetingLine(conn net.Conn) (string, error) {
	return bufio.NewReader(io.LimitReader(conn, identityTextMax+1)).ReadString('\n')
}

// ExchangeAt goes to the peer's meeting at "host:port". While nobody listens there it tries again,
// until ctx ends.
func ExchangeAt(address string) Exchange {
	return func(ctx context.Context, mine Identity) (Identity, error) {
		for {
			id, again, err := visit(ctx, address, mine)
			if err == nil || !again {
				return id, err
			}
			if e := pause(ctx); e != nil {
				return Identity{}, fmt.Errorf("%w: %w", ErrTimeout, err)
			}
		}
	}
}

// visit tries once. again says that the peer may come yet.
func visit(
	ctx context.Context, address string, mine Identity,
) (id Identity, again bool, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		var wrong *net.AddrError
		return id, !errors.As(err, &wrong), fmt.Errorf("%w: %w", ErrExchange, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(meetLine)) // else the read below blocks until the peer ends
	if _, err = fmt.Fprintf(conn, "%v\n", mine); err != nil {
		return id, true, fmt.Errorf("%w: %w", ErrExchange, err)
	}
	line, err := meetingLine(conn)
	if err != nil {
		return id, true, fmt.Errorf("%w: %s closes the connection: %w", ErrExchange, address, err)
	}
	if reason, refused := strings.CutPrefix(line, refusal); refused {
		return id, false, fmt.Errorf("%w: %s says no: %s", ErrExchange, address, oneLine(reason))
	}
	if strings.TrimSpace(line) == busyLine {
		return id, true, fmt.Errorf("%w: nobody at %s waits for a %v now", ErrExchange, address,
			mine.Role)
	}
	if id, err = expect(line, mine); err != nil {
		return id, false, fmt.Errorf("%w: %s is not a meeting of a stream: %w", ErrExchange, address,
			err)
	}
	return id, false, nil
}
