package bounded

import (
	"bytes"
	"context"
	"maps"
	"net"
	"net/http"
	"time"
)

// turnPause is the shortest time between the end of one call of the wrapped handler and the start
// of the next call.
const turnPause = 10 * time.Millisecond

// The type "turns" is an http.Handler that answers requests one after another, in the order of
// their arrival. The wrapped handler runs during the request's turn, and the response is written to
// the network after the turn. Only one request at a time has a turn, and a turn begins at the
// earliest when the time turnPause has passed since the end of the previous turn. The request of a
// client that has disconnected gets no turn.
type turns struct {
	handler http.Handler
	free    chan time.Time // holds the earliest start of the next turn, if no request has the turn
}

func newTurns(h http.Handler) *turns {
	t := &turns{handler: h, free: make(chan time.Time, 1)}
	t.free <- time.Time{}
	return t
}

// ServeHTTP implements http.Handler.
func (t *turns) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := t.answer(r)
	if a == nil {
		return
	}
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // an error means that the client is gone
}

// The method "answer" waits until the request's turn, calls the wrapped handler, and returns the
// response. If the client has disconnected, the method "answer" returns nil.
func (t *turns) answer(r *http.Request) *answer {
	gone := r.Context().Done()
	var next time.Time
	select {
	case next = <-t.free:
	case <-gone:
		return nil
	}
	defer func() { t.free <- next }() // also after a panic of the handler
	select {
	case <-time.After(time.Until(next)):
	case <-gone:
	}
	if r.Context().Err() != nil {
		return nil
	}
	defer func() { next = time.Now().Add(turnPause) }()
	a := &answer{header: make(http.Header)}
	t.handler.ServeHTTP(a, r)
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a
}

// The type "answer" is an http.ResponseWriter that stores the response in memory.
type answer struct {
	header http.Header
	status int // 0 before the call of WriteHeader
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// whileGuest returns a context that is cancelled when the argument "conn" is closed, if an
// HTTPListener has accepted this connection. By itself, package net/http does not notice that a
// connection has ended while data from the client is still unread.
func whileGuest(ctx context.Context, conn net.Conn) context.Context {
	g, ok := conn.(*Guest)
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	if !g.OnLeave(cancel) {
		cancel()
	}
	return ctx
}
