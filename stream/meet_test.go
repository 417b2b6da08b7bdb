package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// door is a listener in the memory of the test, for a Meeting with a given clock.
type door struct {
	comes  chan net.Conn
	closed chan struct{}
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.comes:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	close(d.closed)
	return nil
}

func (d *door) Addr() net.Addr { return &net.TCPAddr{} }

// fromHost is a connection from a host.
type fromHost struct {
	net.Conn
	ip string
}

func (f fromHost) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.ip), Port: 1} }

// caller is a peer at the door of a Meeting.
type caller struct {
	conn net.Conn
	said string // by the Meeting, until it has closed the connection; not before over is closed
	over chan struct{}
}

// call lets a peer of a host come, which sends a line, and waits until the Meeting has read the
// line.
func (d *door) call(ip, line string) *caller {
	near, far := net.Pipe()
	c := &caller{conn: near, over: make(chan struct{})}
	d.comes <- fromHost{far, ip}
	go func() {
		b, _ := io.ReadAll(near) // the end of a connection is no error
		c.said = string(b)
		close(c.over)
	}()
	if line != "" {
		_, _ = io.WriteString(near, line+"\n")
	}
	synctest.Wait()
	return c
}

// gone reports whether the Meeting has closed the connection.
func (c *caller) gone() bool {
	synctest.Wait()
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// receiverLine is the line of a receiver.
func receiverLine(key uint64) string {
	return Identity{Role: RoleReceiver, Key: key, Name: []byte("r")}.String()
}

// endMeeting closes a Meeting, and waits for the time of the peers that have said nothing.
func endMeeting(t *testing.T, m *Meeting) {
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	time.Sleep(2 * meetLine)
}

// TestMeetingGuestsGiveWay: peers that send a good line and then say nothing more fill the Meeting
// while the program is outside of Exchange. A peer that comes later gets a place all the same, and
// keeps it while more of the others come. With equal shares, the peer that has been silent for
// longest gives way.
func TestMeetingGuestsGiveWay(t *testing.T) {
	const honest, flood = 1 << 40, 10 * guestsMax
	for _, hosts := range []int{1, 3, guestsMax} {
		t.Run(fmt.Sprint(hosts, " hosts"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &door{comes: make(chan net.Conn), closed: make(chan struct{})}
				m := meetAt(d)
				defer endMeeting(t, m)
				from := func(i int) string { return fmt.Sprint("192.0.2.", 1+i%hosts) }
				var bad []*caller
				for i := range guestsMax {
					bad = append(bad, d.call(from(i), receiverLine(1+uint64(i))))
				}
				time.Sleep(meetLine / 2)
				running := runtime.NumGoroutine()
				good := d.call("198.51.100.1", receiverLine(honest))
				if good.gone() || !bad[0].gone() || bad[0].said != busyLine+"\n" {
					t.Fatalf("the peer that comes was told %q, the first one %q", good.said, bad[0].said)
				}
				if bad[1].gone() {
					t.Error("two peers gave way for one")
				}
				if hosts < guestsMax { // otherwise the shares of all hosts are equal
					for i := range flood {
						d.call(from(i), receiverLine(1+uint64(i)))
					}
				}
				silent := d.call(from(0), "") // the latest of all, but it has said nothing
				next := d.call(from(0), receiverLine(1))
				if good.gone() || !silent.gone() || next.gone() {
					t.Errorf("gone: the honest peer %v, one without a line %v, the last one %v", good.gone(),
						silent.gone(), next.gone())
				}
				if more := runtime.NumGoroutine() - running; more > guestsMax/2 {
					t.Errorf("%d goroutines more than with a full Meeting", more)
				}
				served := false
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := m.Serve(ctx, RoleSender, func(id Identity) (Identity, error) {
					served = served || id.Key == honest
					return Identity{Role: RoleSender, Key: 1, Name: []byte("s")}, nil
				})
				if !errors.Is(err, ErrTimeout) || !served || !good.gone() ||
					!strings.HasPrefix(good.said, identityPrefix) {
					t.Errorf("%v; the honest peer is served %v, and was told %q", err, served, good.said)
				}
			})
		})
	}
}

// TestMeetingServedStays: a peer that the program has got keeps its place, however many others
// come before it is answered.
func TestMeetingServedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{comes: make(chan net.Conn), closed: make(chan struct{})}
		m := meetAt(d)
		defer endMeeting(t, m)
		ctx, cancel := context.WithCancel(t.Context())
		goOn := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = m.Serve(ctx, RoleSender, func(Identity) (Identity, error) {
				<-goOn
				return Identity{Role: RoleSender, Key: 1, Name: []byte("s")}, nil
			})
		}()
		first := d.call("192.0.2.1", receiverLine(1))
		var last *caller
		for i := range 3 * guestsMax {
			last = d.call("192.0.2.1", receiverLine(1+uint64(i)))
		}
		if first.gone() || last.gone() || m.Refusals().Crowd != 2*guestsMax+1 {
			t.Errorf("gone: the first %v, the last %v; %+v", first.gone(), last.gone(), m.Refusals())
		}
		close(goOn)
		if !first.gone() || !strings.HasPrefix(first.said, identityPrefix) {
			t.Errorf("the first one was told %q", first.said)
		}
		cancel()
		<-ended
	})
}

// TestMeetingFull: as many as fit come and say nothing. Who says something is heard at once, in the
// place of the one that was silent for longest; the others keep theirs.
func TestMeetingFull(t *testing.T) {
	m, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	silent := make([]net.Conn, guestsMax)
	for i := range silent {
		if silent[i], err = net.Dial("tcp", m.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer silent[i].Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		id := Identity{Role: RoleSender, Key: 2, Name: []byte("s")}
		_, err := ExchangeAt(m.Addr().String())(ctx, id)
		got <- err
	}()
	_, err = m.Exchange(ctx, Identity{Role: RoleReceiver, Key: 1, Name: []byte("r")})
	if err = errors.Join(err, <-got); err != nil {
		t.Fatal(err)
	}
	gone := 0
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // the read below tells
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			gone++
		}
	}
	if gone != 1 {
		t.Errorf("%d of %d that were silent were sent away, want the first one", gone, guestsMax)
	}
}

// TestStdIOOrder: the sender speaks first; a receiver asks, and says who it is when it knows its
// sender. Joined by two pipes they meet.
func TestStdIOOrder(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tx := Identity{Role: RoleSender, Key: 2, Name: []byte("s")}
	rx := Identity{Role: RoleReceiver, Key: 1, Name: []byte("r")}
	fromTx, toRx := osPipe(t)
	fromRx, toTx := osPipe(t)
	got := make(chan error, 1)
	go func() {
		id, err := ExchangeStdIO(fromRx, toRx)(ctx, tx)
		if err == nil && id.Key != rx.Key {
			err = errors.New("another receiver")
		}
		got <- err
	}()
	var heard strings.Builder // by the sender, all of it
	id, err := ExchangeStdIO(fromTx, io.MultiWriter(&heard, toTx))(ctx, rx)
	if err = errors.Join(err, <-got); err != nil || id.Key != tx.Key {
		t.Fatalf("%v, %v", id, err)
	}
	if text := heard.String(); !strings.HasPrefix(text, "identity of the sender? ") ||
		strings.Count(text, rx.String()) != 1 {
		t.Errorf("the receiver says %q", text)
	}
	var first strings.Builder
	if _, err := ExchangeStdIO(strings.NewReader(""), &first)(ctx, tx); !errors.Is(err, ErrExchange) {
		t.Errorf("nobody answers: %v", err)
	}
	if !strings.HasPrefix(first.String(), "identity of this sender: ") {
		t.Errorf("the sender says %q first", first.String())
	}
}

// osPipe is a pipe that holds some text, as those between programs do.
func osPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}
