package bounded

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const patience = 10 * time.Second

func listen(t *testing.T, most int) *Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := NewListener(l, most, "later\n")
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// visit connects, and returns the connection and its guest.
func visit(t *testing.T, l *Listener, got <-chan *Guest) (net.Conn, *Guest) {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	select {
	case g := <-got:
		return conn, g
	case <-time.After(patience / 10):
		return conn, nil
	}
}

// said reads a connection until its end.
func said(t *testing.T, conn net.Conn) string {
	t.Helper()
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// TestListener checks that silent guests are displaced, the oldest first, and that proven guests
// stay. A refused connection gets the reason, and a leaving guest makes room.
func TestListener(t *testing.T) {
	l := listen(t, 2)
	got := make(chan *Guest)
	ended := make(chan struct{})
	release := make(chan struct{})
	go func() {
		l.Serve(func(g *Guest) {
			got <- g
			<-release
		})
		close(ended)
	}()
	first, _ := visit(t, l, got)
	_, second := visit(t, l, got)
	_, third := visit(t, l, got) // in the place of the first
	if text := said(t, first); text != "later\n" {
		t.Errorf("the silent one was told %q", text)
	}
	second.Proven()
	third.Proven()
	late, g := visit(t, l, got)
	if text := said(t, late); g != nil || text != "later\n" {
		t.Errorf("one too many is %v and was told %q", g, text)
	}
	if r := l.Refusals(); r != (Refusals{Full: 1, Displaced: 1}) {
		t.Errorf("%+v", r)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, g := visit(t, l, got); g == nil {
		t.Error("the place of one that has left is not free")
	}
	close(release)
	_ = l.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("Serve goes on")
	}
}

// TestHosts checks which guest gives way: the host with the most guests loses one. A guest that has
// not spoken gives way first, and then the one that has been silent for longest.
func TestHosts(t *testing.T) {
	l := &Listener{most: 5}
	for _, host := range []string{"a", "b", "b", "c", "c"} {
		l.guests = append(l.guests, &Guest{of: l, host: host})
	}
	a, b1, b2, c1, c2 := l.guests[0], l.guests[1], l.guests[2], l.guests[3], l.guests[4]
	check := func(what, newcomer string, want *Guest) {
		t.Helper()
		var got *Guest
		if i := l.yields(newcomer); i >= 0 {
			got = l.guests[i]
		}
		if got != want {
			t.Errorf("%s: a guest from %s replaces %+v, want %+v", what, newcomer, got, want)
		}
	}
	check("silent", "d", b1)
	check("silent", "c", c1) // the new guest counts
	b1.Spoke()
	check("one has spoken", "d", b2)
	b2.Spoke()
	check("all of b have spoken", "d", c1)
	check("all of b have spoken", "b", b1) // a host that sends more guests takes no place of others
	c1.Spoke()
	c2.Spoke()
	check("the oldest word", "d", b1)
	b1.Spoke()
	check("it speaks again", "d", b2)
	a.Spoke()
	check("the newest word", "a", b2)
	late := &Guest{of: l, host: "b"}
	l.guests = append(l.guests, late)
	check("the latest has not spoken", "d", late)
	l.guests = slices.DeleteFunc(l.guests, func(g *Guest) bool { return g == late })
	for _, g := range []*Guest{b1, b2, c1} {
		if !g.Proven() {
			t.Error("a guest has left")
		}
	}
	check("what is served does not count", "a", a)
	check("equal shares", "d", c2)
	a.Proven()
	c2.Proven()
	check("all are served", "d", nil)
}

// TestShareOf checks which addresses are one host.
func TestShareOf(t *testing.T) {
	const port = 7
	for _, c := range []struct{ ip, same, other string }{
		{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"},
		{"2001:db8::1", "2001:db8:0:0:ffff::2", "2001:db8:0:1::1"},
	} {
		of := func(ip string) string {
			return ShareOf(&net.TCPAddr{IP: net.ParseIP(ip), Port: port})
		}
		if of(c.ip) != of(c.same) || of(c.ip) == of(c.other) {
			t.Errorf("%s is %q, %s %q, %s %q", c.ip, of(c.ip), c.same, of(c.same), c.other,
				of(c.other))
		}
	}
	for text, a := range map[string]net.Addr{"": nil, "@x": &net.UnixAddr{Name: "@x", Net: "unix"}} {
		if got := ShareOf(a); got != text {
			t.Errorf("%v is %q, want %q", a, got, text)
		}
	}
}

// TestDisplacedHoldsNothing checks that a guest that gives way is told so at once, ends its
// goroutine, and can no longer be served.
func TestDisplacedHoldsNothing(t *testing.T) {
	l := listen(t, 1)
	const visitors = 3
	got, ended := make(chan *Guest, visitors), make(chan *Guest, visitors)
	go l.Serve(func(g *Guest) {
		left := make(chan struct{})
		g.Spoke()
		if !g.OnLeave(func() { close(left) }) {
			t.Error("a guest has left before it has come")
		}
		got <- g
		<-left
		ended <- g
	})
	var before net.Conn
	var guest *Guest
	for range visitors {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		next := <-got
		if guest != nil {
			if text := said(t, before); text != "later\n" {
				t.Errorf("a guest that gives way was told %q", text)
			}
			if g := <-ended; g != guest {
				t.Error("another guest ends")
			}
			if guest.Proven() || guest.OnLeave(func() { t.Error("it leaves again") }) {
				t.Error("a guest that has left can be served")
			}
			_ = guest.Close()
		}
		before, guest = conn, next
	}
	if !guest.Proven() {
		t.Error("the last guest has left")
	}
	_ = guest.Close()
	<-ended
}

// stuck is a connection whose writes do not end before a test permits it.
type stuck struct {
	net.Conn
	writes  atomic.Int32
	closed  atomic.Bool
	release chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	s.writes.Add(1)
	<-s.release
	return len(b), nil
}

func (s *stuck) Close() error {
	s.closed.Store(true)
	return s.Conn.Close()
}

// offering is a listener with given connections.
type offering struct {
	net.Listener
	conns []net.Conn
}

func (o *offering) Accept() (net.Conn, error) {
	c := o.conns[0]
	o.conns = o.conns[1:]
	return c, nil
}

// TestRefusedReadsNothing checks that guests that do not read why they give way delay no new guest.
// Only so many of them are told at the same time, and the next one is closed at once.
func TestRefusedReadsNothing(t *testing.T) {
	const guests = tellingMax + 2
	release := make(chan struct{})
	all := make([]*stuck, guests)
	o := &offering{}
	for i := range all {
		one, other := net.Pipe()
		defer other.Close()
		all[i] = &stuck{Conn: one, release: release}
		o.conns = append(o.conns, all[i])
	}
	l := NewListener(o, 1, "later\n")
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for range guests {
			if _, err := l.Accept(); err != nil {
				t.Error(err)
			}
		}
	}()
	select {
	case <-accepted:
	case <-time.After(patience):
		t.Error("a new guest waits for one that does not read")
	}
	if untold := all[tellingMax]; !untold.closed.Load() || untold.writes.Load() != 0 {
		t.Error("the guest beyond the bound is not closed at once")
	}
	if all[0].closed.Load() {
		t.Error("a guest is closed before it is told the reason")
	}
	close(release)
	<-accepted
}

// failing is a listener that fails now and then.
type failing struct {
	net.Listener
	fails atomic.Int32
}

func (f *failing) Accept() (net.Conn, error) {
	if f.fails.Add(-1) >= 0 {
		return nil, errors.New("too many open files")
	}
	return f.Listener.Accept()
}

// TestAcceptFails checks that an error of one accept ends nothing, unless the listener is closed.
func TestAcceptFails(t *testing.T) {
	l := listen(t, 1)
	f := &failing{Listener: l.listener}
	f.fails.Store(3)
	l.listener = f
	got := make(chan *Guest, 1)
	go l.Serve(func(g *Guest) { got <- g })
	if _, g := visit(t, l, got); g == nil {
		t.Error("nobody is let in")
	}
	_ = l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestLines checks that lines are complete, however their bytes arrive. A line that is too long is
// an error before the line is in memory, and a line without an end is an error.
func TestLines(t *testing.T) {
	for _, most := range []int{3, 5000, 1 << 20} {
		whole := strings.Repeat("x", most)
		r := NewLines(oneByteEach(strings.NewReader(whole+"\n\r\na\r\n"+whole[:most-1])), most)
		for _, want := range []string{whole, "", "a"} {
			if line, err := r.Next(); err != nil || string(line) != want {
				t.Errorf("%d: %d bytes, %v, want %d", most, len(line), err, len(want))
			}
		}
		if _, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d: no end: %v", most, err)
		}
		if _, err := NewLines(strings.NewReader(whole+"x\n"), most).Next(); !errors.Is(err, ErrLong) {
			t.Errorf("%d: too long: %v", most, err)
		}
	}
	endless := &endless{}
	if _, err := NewLines(endless, 1000).Next(); !errors.Is(err, ErrLong) || endless.read > 8192 {
		t.Errorf("endless: %v after %d bytes", err, endless.read)
	}
	if _, err := NewLines(bytes.NewReader(nil), 9).Next(); !errors.Is(err, io.EOF) {
		t.Errorf("empty: %v", err)
	}
}

type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	e.read += len(b)
	return len(b), nil
}

// oneByteEach returns one byte per Read.
func oneByteEach(r io.Reader) io.Reader { return oneByte{r} }

type oneByte struct{ io.Reader }

func (o oneByte) Read(b []byte) (int, error) { return o.Reader.Read(b[:min(1, len(b))]) }

// TestHTTP checks that hundreds of clients with endless headers do not keep another client from its
// answer.
func TestHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := HTTPListener(l)
	s := HTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "here")
	}))
	go func() { _ = s.Serve(b) }()
	defer s.Close()
	for range 3 * httpGuests {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nX: ")
	}
	client := http.Client{Timeout: patience}
	resp, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "here" {
		t.Errorf("%q, %v", text, err)
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	if n := len(b.guests); n > httpGuests {
		t.Errorf("%d guests", n)
	}
}

// TestCloseAll: the goroutines of silent guests end with the listener.
func TestCloseAll(t *testing.T) {
	l := listen(t, 4)
	got, ended := make(chan *Guest), make(chan struct{})
	go func() {
		defer close(ended)
		l.Serve(func(g *Guest) {
			got <- g
			_, _ = g.Read(make([]byte, 1)) // no deadline
		})
	}()
	for range 2 {
		if _, g := visit(t, l, got); g == nil {
			t.Fatal("no guest")
		}
	}
	if err := l.CloseAll(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("a guest stays")
	}
}
