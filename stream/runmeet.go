package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	lines    time.Duration
}

// meetLine is the time that a peer has for its line.
const meetLine = 5 * time.Second

// Listen opens a meeting at "host:port"; port 0 picks one. It listens until Close.
func Listen(address string) (*Meeting, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExchange, err)
	}
	return &Meeting{listener: l, lines: meetLine}, nil
}

// Addr is the address to connect to.
func (m *Meeting) Addr() net.Addr { return m.listener.Addr() }

// Close ends the meeting.
func (m *Meeting) Close() error { return m.listener.Close() }

// Exchange waits for the next peer and swaps identities with it. Those who do not say who they are
// in five seconds, or have the wrong role, are sent away, with a line that says so, and keep nobody
// else waiting: several may be heard at once.
func (m *Meeting) Exchange(ctx context.Context, mine Identity) (Identity, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan Identity)
	failed := make(chan error, 1)
	var guests sync.WaitGroup
	accepting := context.AfterFunc(ctx, func() {
		if l, ok := m.listener.(*net.TCPListener); ok {
			_ = l.SetDeadline(time.Unix(1, 0)) // ends Accept
		}
	})
	defer accepting()
	if l, ok := m.listener.(*net.TCPListener); ok {
		_ = l.SetDeadline(time.Time{})
	}
	go func() {
		const guestsMax = 64
		room := make(chan struct{}, guestsMax)
		for {
			conn, err := m.listener.Accept()
			if err != nil {
				failed <- err
				return
			}
			room <- struct{}{}
			guests.Add(1)
			go func() {
				defer func() { <-room; guests.Done() }()
				m.hear(ctx, conn, mine, found)
			}()
		}
	}()
	select {
	case id := <-found:
		return id, nil
	case err := <-failed:
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: nobody came: %w", ErrTimeout, ctx.Err())
		}
		return Identity{}, errors.Join(ErrExchange, err)
	case <-ctx.Done():
		return Identity{}, fmt.Errorf("%w: nobody came to %v: %w", ErrTimeout, m.Addr(), ctx.Err())
	}
}

// hear swaps identities with one who came, if it is the first that fits.
func (m *Meeting) hear(ctx context.Context, conn net.Conn, mine Identity, found chan<- Identity) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(m.lines)) // else the read blocks, and ctx ends the Exchange
	line, err := meetingLine(conn)
	id := Identity{}
	if err == nil {
		id, err = expect(line, mine)
	}
	if err != nil {
		fmt.Fprintf(conn, "no: %v\n", err)
		return
	}
	select {
	case found <- id:
		fmt.Fprintf(conn, "%v\n", mine)
	case <-ctx.Done():
		fmt.Fprintf(conn, "no: the %v has its %v\n", mine.Role, id.Role)
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
	if reason, refused := cutRefusal(line); refused {
		return id, false, fmt.Errorf("%w: %s says no: %s", ErrExchange, address, reason)
	}
	if id, err = expect(line, mine); err != nil {
		return id, false, fmt.Errorf("%w: %s is not a meeting of a stream: %w", ErrExchange, address,
			err)
	}
	return id, false, nil
}

// cutRefusal reads a line that is no identity but a reason.
func cutRefusal(line string) (reason string, ok bool) {
	const no = "no: "
	if len(line) < len(no) || line[:len(no)] != no {
		return "", false
	}
	return failedError(line[len(no):]).Error(), true
}
