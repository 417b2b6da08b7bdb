package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/internal/bounded"
	"gobtl/internal/plain"
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
	listener *bounded.Listener
	guests   chan guest
	closed   chan struct{}
	close    sync.Once
	nonsense atomic.Uint64
}

// guest is one who has come and said a line.
type guest struct {
	conn net.Conn
	line string
	done chan struct{} // closed when it has its answer
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
	m := &Meeting{
		listener: bounded.NewListener(l, guestsMax, busyLine+"\n"), guests: make(chan guest),
		closed: make(chan struct{}),
	}
	go m.listener.Serve(m.hear)
	return m, nil
}

// Addr is the address to connect to.
func (m *Meeting) Addr() net.Addr { return m.listener.Addr() }

// Close ends the meeting.
func (m *Meeting) Close() error {
	m.close.Do(func() { close(m.closed) })
	return m.listener.Close()
}

// MeetingRefusals counts those who have come to a meeting and were sent away there.
type MeetingRefusals struct {
	Nonsense uint64 `json:"nonsense"` // they have not said who they are, in time
	Crowd    uint64 `json:"crowd"`    // there was no place for them
}

// Refusals returns how many were sent away so far.
func (m *Meeting) Refusals() MeetingRefusals {
	r := m.listener.Refusals()
	return MeetingRefusals{Nonsense: m.nonsense.Load(), Crowd: r.Full + r.Displaced}
}

// hear listens to one who came, and has it wait for its answer.
func (m *Meeting) hear(g *bounded.Guest) {
	_ = g.SetDeadline(time.Now().Add(meetLine)) // else the read below blocks until the peer ends
	line, err := bounded.NewLines(g, identityTextMax).Next()
	if err == nil {
		_, err = ParseIdentity(string(line))
	}
	if err != nil {
		m.nonsense.Add(1)
		fmt.Fprintf(g, "%s%v\n", refusal, plain.Line(err.Error()))
		return
	}
	g.Proven()
	busy := time.NewTimer(meetLine)
	defer busy.Stop()
	answered := guest{g, string(line), make(chan struct{})}
	select {
	case m.guests <- answered:
		<-answered.done
	case <-busy.C:
		fmt.Fprintln(g, busyLine)
	case <-m.closed:
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
func (m *Meeting) Exchange(ctx context.Context, mine Identity) (id Identity, err error) {
	met := false
	err = m.each(ctx, func(g guest) bool {
		id, err = expect(g.line, mine)
		met = g.answer(mine, err) && err == nil
		return met
	})
	if met {
		return id, nil
	}
	return Identity{}, err
}

// Serve answers each peer that comes at once, until ctx ends, with the identity that answer gives
// it; so nobody waits for another one. answer is called by one goroutine at a time and is given
// peers of the other role than its own alone. Of its errors one that wraps ErrTaken has the peer
// come again, and any other sends it away with that reason.
func (m *Meeting) Serve(ctx context.Context, role Role, answer func(Identity) (Identity, error),
) error {
	return m.each(ctx, func(g guest) bool {
		var mine Identity
		id, err := expect(g.line, Identity{Role: role})
		if err == nil {
			mine, err = answer(id)
		}
		g.answer(mine, err)
		return false
	})
}

// each takes one guest after the other until fn returns true.
func (m *Meeting) each(ctx context.Context, fn func(guest) bool) error {
	for {
		select {
		case g := <-m.guests:
			over := fn(g)
			close(g.done)
			if over {
				return nil
			}
		case <-m.closed:
			return fmt.Errorf("%w: the meeting is closed", ErrExchange)
		case <-ctx.Done():
			return fmt.Errorf("%w: nobody came to %v: %w", ErrTimeout, m.Addr(), ctx.Err())
		}
	}
}

// answer tells a guest an identity, or why it gets none, and says whether that has left.
func (g *guest) answer(mine Identity, err error) bool {
	text := mine.String()
	switch {
	case errors.Is(err, ErrTaken):
		text = busyLine
	case err != nil:
		text = refusal + plain.Line(err.Error())
	}
	_ = g.conn.SetDeadline(time.Now().Add(meetLine)) // a few bytes into an empty buffer
	_, e := fmt.Fprintln(g.conn, text)
	return e == nil
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
	heard, err := bounded.NewLines(conn, identityTextMax).Next()
	line := string(heard)
	if err != nil {
		return id, true, fmt.Errorf("%w: %s closes the connection: %w", ErrExchange, address, err)
	}
	if reason, refused := strings.CutPrefix(line, refusal); refused {
		return id, false, fmt.Errorf("%w: %s says no: %s", ErrExchange, address, plain.Line(reason))
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
