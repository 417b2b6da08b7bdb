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

func runAside(fn func()) { go fn() }

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

// Meeting is a TCP address at which peers exchange identities. Each side sends one line.
type Meeting struct {
	listener *bounded.Listener
	guests   chan guest
	closed   chan struct{}
	close    sync.Once
	nonsense atomic.Uint64
}

// guest is a connected peer that has sent a valid identity.
type guest struct {
	conn *bounded.Guest
	line string
	done chan struct{} // closed after the answer to the peer
}

const (
	// meetLine is the time limit for a new peer to send its line. A peer that has sent its line waits
	// for a call of Exchange for at most the time meetLine.
	meetLine = 5 * time.Second
	// guestsMax is the largest number of peers that are connected to a Meeting. If guestsMax peers are
	// connected, a new peer replaces a waiting peer, which is a peer that has not sent its line yet or
	// that waits for a call of Exchange. The replaced peer is on the host with the most waiting peers.
	// On this host, a peer without a line is replaced first, and then the peer whose line is oldest
	// (see package bounded).
	guestsMax = 64
)

// Listen opens a Meeting at "host:port". Port 0 selects a free port. The Meeting listens until
// Close.
func Listen(address string) (*Meeting, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExchange, inner(err))
	}
	return meetAt(l), nil
}

// meetAt makes a Meeting of a listener.
func meetAt(l net.Listener) *Meeting {
	m := &Meeting{
		listener: bounded.NewListener(l, guestsMax, busyLine+"\n"), guests: make(chan guest),
		closed: make(chan struct{}),
	}
	go m.listener.Serve(m.hear)
	return m
}

// Addr returns the address at which the Meeting listens.
func (m *Meeting) Addr() net.Addr { return m.listener.Addr() }

// Close stops listening for peers and closes the Meeting.
func (m *Meeting) Close() error {
	m.close.Do(func() { close(m.closed) })
	return m.listener.Close()
}

// MeetingRefusals counts the peers that a Meeting has refused.
type MeetingRefusals struct {
	Nonsense uint64 `json:"nonsense"` // no valid identity in time
	Crowd    uint64 `json:"crowd"`    // too many connected peers
}

// Refusals returns the numbers of peers that the Meeting has refused, by reason.
func (m *Meeting) Refusals() MeetingRefusals {
	r := m.listener.Refusals()
	return MeetingRefusals{Nonsense: m.nonsense.Load(), Crowd: r.Full + r.Displaced}
}

// hear reads the line of a new peer, and keeps the connection open until the Meeting has answered
// the peer, or until a new peer has replaced this peer.
func (m *Meeting) hear(g *bounded.Guest) {
	_ = g.SetDeadline(time.Now().Add(meetLine)) // without a deadline the read could block forever
	line, err := bounded.NewLines(g, identityTextMax).Next()
	if err == nil {
		_, err = ParseIdentity(string(line))
	}
	if err != nil {
		m.nonsense.Add(1)
		fmt.Fprintf(g, "%s%v\n", refusal, plain.Line(err.Error()))
		return
	}
	g.Spoke()
	replaced := make(chan struct{})
	if !g.OnLeave(func() { close(replaced) }) {
		return
	}
	busy := time.NewTimer(meetLine)
	defer busy.Stop()
	answered := guest{g, string(line), make(chan struct{})}
	select {
	case m.guests <- answered:
		<-answered.done
	case <-replaced:
	case <-busy.C:
		fmt.Fprintln(g, busyLine)
	case <-m.closed:
	}
}

// The constants below are answers of a Meeting that contain no identity. A peer that receives an
// answer that begins with the constant "refusal" must not try again. A peer that receives busyLine
// as the answer may try again later.
const (
	refusal  = "no: "
	busyLine = "later"
)

// Exchange waits for the next peer, and exchanges identities with this peer. The Meeting refuses a
// peer that sends no identity within five seconds, or that has the wrong role, and tells the peer
// the reason. A refused peer does not delay other peers. Several goroutines may call Exchange at
// the same time. Each call of Exchange gets a different peer.
func (m *Meeting) Exchange(ctx context.Context, mine Identity) (id Identity, err error) {
	met := false
	err = m.each(ctx, func(g guest) bool {
		id, err = g.expect(mine)
		met = g.answer(mine, err) && err == nil
		return met
	})
	if met {
		return id, nil
	}
	return Identity{}, err
}

// Serve answers each new peer immediately with the identity that the function "answer" returns,
// until ctx ends. With Serve, no peer waits for another peer. Calls of the function "answer" do not
// overlap, and Serve calls it only for peers whose role is opposite to the argument "role". If the
// function "answer" returns an error that wraps ErrTaken, the peer may try again later. If the
// function "answer" returns an error that does not wrap ErrTaken, Serve refuses the peer with the
// text of the error as the reason.
func (m *Meeting) Serve(ctx context.Context, role Role, answer func(Identity) (Identity, error),
) error {
	return m.each(ctx, func(g guest) bool {
		var mine Identity
		id, err := g.expect(Identity{Role: role})
		if err == nil {
			mine, err = answer(id)
		}
		g.answer(mine, err)
		return false
	})
}

// The method "each" waits for peers and passes them to fn, one after another, until fn returns
// true.
func (m *Meeting) each(ctx context.Context, fn func(guest) bool) error {
	for {
		select {
		case g := <-m.guests:
			over := g.conn.Proven() && fn(g) // false: the peer was replaced meanwhile
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

// expect returns the identity of a peer, or an error if the peer has the same role as the identity
// "mine".
func (g *guest) expect(mine Identity) (Identity, error) {
	id, err := expect(g.line, mine)
	if host, _, e := net.SplitHostPort(g.conn.RemoteAddr().String()); e == nil {
		id.from = host
	}
	return id, err
}

// The method "answer" sends this side's identity to a peer, or the reason of a refusal. The method
// "answer" reports whether the line was sent.
func (g *guest) answer(mine Identity, err error) bool {
	text := mine.String()
	switch {
	case errors.Is(err, ErrTaken):
		text = busyLine
	case err != nil:
		text = refusal + plain.Line(err.Error())
	}
	_ = g.conn.SetDeadline(time.Now().Add(meetLine)) // a short line fits the socket's empty buffer
	_, e := fmt.Fprintln(g.conn, text)
	return e == nil
}

// ExchangeAt exchanges identities with the Meeting at the address "host:port". While no peer
// listens at the address, ExchangeAt tries again until ctx ends.
func ExchangeAt(address string) Exchange {
	return func(ctx context.Context, mine Identity) (Identity, error) {
		var why error // why the attempts have failed; the end of ctx may only have cut off the latest
		for {
			id, again, err := visit(ctx, address, mine)
			if err == nil || !again {
				return id, err
			}
			if end, ok := ctx.Deadline(); why == nil ||
				ctx.Err() == nil && (!ok || time.Now().Before(end)) {
				why = err
			}
			if e := pause(ctx); e != nil {
				return Identity{}, fmt.Errorf("%w: %w", ErrTimeout, inner(why))
			}
		}
	}
}

// visit makes one attempt to exchange identities. The result "again" of visit reports whether
// ExchangeAt should try again later.
func visit(
	ctx context.Context, address string, mine Identity,
) (id Identity, again bool, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		var wrong *net.AddrError
		return id, !errors.As(err, &wrong), fmt.Errorf("%w: %w", ErrExchange, inner(err))
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(meetLine)) // without a deadline the read could block forever
	if _, err = fmt.Fprintf(conn, "%v\n", mine); err != nil {
		return id, true, fmt.Errorf("%w: %w", ErrExchange, inner(err))
	}
	heard, err := bounded.NewLines(conn, identityTextMax).Next()
	line := string(heard)
	if err != nil {
		return id, true, fmt.Errorf("%w: %s closes the connection: %w", ErrExchange, address, err)
	}
	if reason, refused := strings.CutPrefix(line, refusal); refused {
		return id, false, fmt.Errorf("%w: %s says no: %s", ErrExchange, address, reasonOf(reason))
	}
	if strings.TrimSpace(line) == busyLine {
		return id, true, fmt.Errorf("%w: nobody at %s waits for a %v now", ErrExchange, address,
			mine.Role)
	}
	if id, err = expect(line, mine); err != nil {
		return id, false, fmt.Errorf("%w: %s is not a meeting of a stream: %w", ErrExchange, address,
			inner(err))
	}
	return id, false, nil
}
