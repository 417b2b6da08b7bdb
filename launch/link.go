package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"gobtl/internal/bounded"
	"gobtl/launch/pmi"
)

// longAgo is a time in the past. If longAgo is set as the deadline of a connection, reads and
// writes in progress fail at once.
var longAgo = time.Unix(1, 0)

// link is the connection to a PMI-1 server. After an error, a link cannot be used any more, because
// the next reply could belong to the request that has failed.
type link struct {
	conn net.Conn
	in   *bounded.Lines
	err  error
	said bool // the latest call of the method "ask" has written its line, or had an empty line
}

func newLink(conn net.Conn) *link {
	return &link{conn: conn, in: bounded.NewLines(conn, pmi.LineBytesMax-1)}
}

// The method "ask" sends a line unless the line is empty, and returns the next reply of the server.
// The argument "want" is the command that the reply must have. If the reply does not arrive before
// the duration "limit" has passed or ctx ends, the method "ask" returns an error.
func (l *link) ask(ctx context.Context, limit time.Duration, line, want string) (
	pmi.Message, error,
) {
	l.said = line == ""
	if l.err != nil {
		return pmi.Message{}, l.err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("%w: no %s within %v", ErrTimeout, want, limit))
	defer cancel()
	release := l.until(ctx)
	m, err := l.exchange(line, want)
	release()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		l.close(err)
	}
	return m, err
}

// The method "until" makes reads and writes of the connection fail when ctx ends. The method
// "until" returns the function "release", after whose call the end of ctx has no effect on the
// connection. If ctx ended after the reply was read, the function "release" removes the deadline
// that the end of ctx has set, so that the next request does not fail.
func (l *link) until(ctx context.Context) (release func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = l.conn.SetDeadline(longAgo) // fails only on a closed connection
	})
	return func() {
		if !stop() {
			<-ended
			_ = l.conn.SetDeadline(time.Time{})
		}
	}
}

// interrupt sends a line while a second goroutine waits in the method "ask" for a reply. After the
// send, the method "interrupt" calls the function "wait", which returns when the second goroutine
// has stopped waiting. If the duration "limit" passes or ctx ends before the function "wait"
// returns, the reads and writes of the second goroutine fail. The method "interrupt" reports
// whether the line was sent.
func (l *link) interrupt(ctx context.Context, limit time.Duration, line string, wait func()) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if l == nil {
		wait()
		return false
	}
	defer l.until(ctx)()
	_, err := io.WriteString(l.conn, line+"\n")
	wait()
	return err == nil
}

func (l *link) exchange(line, want string) (pmi.Message, error) {
	if line != "" {
		// The whole line is written by one system call, because Slurm expects that one read returns the
		// whole first line of a connection.
		if _, err := io.WriteString(l.conn, line+"\n"); err != nil {
			return pmi.Message{}, fmt.Errorf("%w: %w", ErrGone, err)
		}
		l.said = true
	}
	answer, err := l.in.Next()
	switch {
	case errors.Is(err, bounded.ErrLong):
		return pmi.Message{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	case err != nil:
		return pmi.Message{}, fmt.Errorf("%w: %w", ErrGone, err)
	}
	m, err := pmi.Parse(answer)
	if err != nil {
		return pmi.Message{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if m.Cmd != want {
		return pmi.Message{}, fmt.Errorf("%w: %.40q instead of %s", ErrProtocol, m.Cmd, want)
	}
	return m, nil
}

// close closes the connection. Later calls of ask return the error err.
func (l *link) close(err error) {
	if l.err == nil {
		l.err = err
		_ = l.conn.Close() // nothing more is read or written
	}
}

// The type "maxes" has the largest sizes of keys and values that this process uses, in bytes. Each
// size in "maxes" is the limit of the launcher or the limit of PMI-1, whichever is smaller.
type maxes struct{ key, value int }

// The method "begin" negotiates the protocol version with the server, and requests the size limits
// and the name of the key-value store.
func (l *link) begin(ctx context.Context, limit time.Duration) (
	sizes maxes, name string, err error,
) {
	m, err := l.ask(ctx, limit, "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
	if err == nil {
		err = l.accepted(m)
	}
	if err != nil {
		return maxes{}, "", err
	}
	if m, err = l.ask(ctx, limit, "cmd=get_maxes", "maxes"); err != nil {
		return maxes{}, "", err
	}
	for _, f := range []struct {
		name        string
		least, most int
		into        *int
	}{
		{"keylen_max", 48, pmi.KeyBytesMax, &sizes.key},
		{"vallen_max", 64, pmi.ValueBytesMax, &sizes.value},
	} {
		n, err := m.Int(f.name, f.least, 1<<30)
		if err != nil {
			return maxes{}, "", l.broken(err)
		}
		*f.into = min(n, f.most) - 1 // some launchers count the final zero of a C string
	}
	if m, err = l.ask(ctx, limit, "cmd=get_my_kvsname", "my_kvsname"); err != nil {
		return maxes{}, "", err
	}
	name, _ = m.Get("kvsname")
	if !pmi.Good(name, pmi.NameBytesMax) {
		return maxes{}, "", l.broken(fmt.Errorf("name of the store %.80q", name))
	}
	return sizes, name, nil
}

// The method "accepted" returns nil if the result code in the reply m is 0 or missing. If the
// result code is a number that is not 0, the method "accepted" returns an error that wraps
// ErrRefused.
func (l *link) accepted(m pmi.Message) error {
	if _, ok := m.Get("rc"); !ok {
		return nil
	}
	rc, err := m.Int("rc", -1<<31, 1<<31-1)
	if err != nil {
		return l.broken(err)
	}
	if rc != 0 {
		why, _ := m.Get("msg")
		why = strings.ReplaceAll(why, "_", " ")
		return fmt.Errorf("%w: %s, result %d %s", ErrRefused, m.Cmd, rc, why)
	}
	return nil
}

// The method "broken" closes the link to a launcher that has violated the protocol, and returns an
// error that wraps ErrProtocol.
func (l *link) broken(why error) error {
	err := fmt.Errorf("%w: %w", ErrProtocol, why)
	l.close(err)
	return err
}
