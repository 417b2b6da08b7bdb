package bounded

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gatherer is a handler that takes some time, and watches how often it is called.
type gatherer struct {
	t *testing.T

	lock    sync.Mutex // guards the fields below
	running int
	calls   int
	ended   time.Time
}

const gatherTime = 3 * time.Millisecond

func (g *gatherer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.lock.Lock()
	g.calls++
	if g.running++; g.running > 1 {
		g.t.Errorf("call %d begins during another", g.calls)
	}
	if pause := time.Since(g.ended); pause < turnPause {
		g.t.Errorf("call %d begins %v after the last", g.calls, pause)
	}
	g.lock.Unlock()
	time.Sleep(gatherTime)
	g.lock.Lock()
	g.running--
	g.ended = time.Now()
	g.lock.Unlock()
	switch r.URL.Path {
	case "/panic":
		panic("as told")
	case "/none":
		w.Header().Set("Why", "none")
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = io.WriteString(w, r.URL.Path)
}

func (g *gatherer) count() int {
	g.lock.Lock()
	defer g.lock.Unlock()
	return g.calls
}

func ask(t *testing.T, h http.Handler, path string, status int) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if body := w.Body.String(); w.Code != status || body != path {
		t.Errorf("%s: %d, %q", path, w.Code, body)
	}
	return w
}

// TestTurns checks that requests without a pause are answered one at a time and with a pause, and
// that all of their clients get the same share.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, turnsEach = 20, 10
		g := &gatherer{t: t}
		h := HTTPServer(g).Handler
		end := time.Now().Add(clients * turnsEach * (turnPause + gatherTime))
		var group sync.WaitGroup
		var answers [clients]int
		for i := range answers {
			group.Go(func() {
				for time.Now().Before(end) {
					ask(t, h, "/", http.StatusOK)
					answers[i]++
				}
			})
		}
		group.Wait()
		if slices.Min(answers[:]) < turnsEach-1 || slices.Max(answers[:]) > turnsEach+1 {
			t.Errorf("answers by client: %v, want %d each", answers, turnsEach)
		}
	})
}

// TestTurnsEnd checks that a client that is gone takes no turn, whether it waits for the turn or
// for the end of the pause, and that a handler that panics gives back its turn. Status and header
// of an answer reach the client.
func TestTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gatherer{t: t}
		h := HTTPServer(g).Handler
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of the handler is lost")
				}
			}()
			ask(t, h, "/panic", http.StatusOK)
		}()
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 3 { // the first of them has the turn, in its pause
			group.Go(func() {
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
				h.ServeHTTP(httptest.NewRecorder(), r)
			})
		}
		synctest.Wait()
		cancel()
		group.Wait()
		if n := g.count(); n != 1 {
			t.Errorf("%d calls, want the one before", n)
		}
		w := ask(t, h, "/none", http.StatusNotFound)
		if why := w.Header().Get("Why"); why != "none" {
			t.Errorf("header %q", why)
		}
	})
}

// unread is a client that reads nothing until release is closed.
type unread struct {
	http.ResponseWriter
	writing, release chan struct{}
}

func (u unread) Write(b []byte) (int, error) {
	close(u.writing)
	<-u.release
	return len(b), nil
}

// TestTurnsUnread checks that a client that does not read its answer delays no other.
func TestTurnsUnread(t *testing.T) {
	h := HTTPServer(&gatherer{t: t}).Handler
	u := unread{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	var group sync.WaitGroup
	defer group.Wait()
	defer close(u.release)
	group.Go(func() { h.ServeHTTP(u, httptest.NewRequest(http.MethodGet, "/", nil)) })
	answered := make(chan struct{})
	group.Go(func() {
		defer close(answered)
		<-u.writing
		ask(t, h, "/", http.StatusOK)
	})
	select {
	case <-answered:
	case <-time.After(patience):
		t.Error("another client gets no answer")
	}
}

// TestTurnsOfGuests checks that clients that give way to others do not wait for a turn any more,
// even if they have sent more than a request.
func TestTurnsOfGuests(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := HTTPListener(l)
	release := make(chan struct{})
	s := HTTPServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	var lock sync.Mutex
	served := 0 // connections with a goroutine
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		lock.Lock()
		defer lock.Unlock()
		switch state {
		case http.StateNew:
			served++
		case http.StateClosed:
			served--
		}
	}
	go func() { _ = s.Serve(b) }()
	defer s.Close()
	defer close(release)
	more := strings.Repeat("G", 3*4096) // more than the server reads with the request
	for range 3 * httpGuests {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"+more)
	}
	const most = httpGuests + 1 // one has the turn
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		lock.Lock()
		n := served
		lock.Unlock()
		if n <= most && b.Refusals().Displaced >= 2*httpGuests {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d clients are served, want at most %d", n, most)
		}
	}
}
