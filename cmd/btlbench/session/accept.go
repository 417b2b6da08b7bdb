package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/internal/bounded"
)

// Server accepts clients and serves them, one after the other.
type Server struct {
	options Options
	once    bool // one client is all
	// opened is told of each side; log of each client.
	opened func(*layers.Side)
	log    func(format string, args ...any)

	serving chan struct{} // holds a value while a client is served
	// ended receives the verdict of the first client that was served.
	ended chan error
}

// NewServer returns a server that tells opened of each side that it opens, and log of its clients.
// With once it ends after one of them.
func NewServer(o Options, once bool, opened func(*layers.Side), log func(string, ...any)) *Server {
	return &Server{
		options: o, once: once, opened: opened, log: log, serving: make(chan struct{}, 1),
		ended: make(chan error, 1),
	}
}

// Serve accepts clients until ctx is done, whose cause is the error then, or with once until one
// has been served. It closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) (err error) {
	guests := bounded.NewListener(listener, guestsMax, fullLine)
	var group sync.WaitGroup
	group.Go(func() { guests.Serve(func(g *bounded.Guest) { s.serveConn(ctx, g) }) })
	select {
	case <-ctx.Done():
		err = context.Cause(ctx)
	case err = <-s.ended:
	}
	_ = guests.Close() // It ends Serve; there is nothing else that it could fail to do.
	group.Wait()
	return err
}

const (
	// guestsMax bounds the number of simultaneous connections.
	guestsMax = 64
	// fullLine is the line for a connection that gets no place.
	fullLine = `{"type":"error","error":"busy with other connections: try again later"}` + "\n"
)

// serveConn serves one connection of any, possibly hostile, peer.
func (s *Server) serveConn(ctx context.Context, conn *bounded.Guest) {
	from := conn.RemoteAddr()
	c := newControlConn(conn)
	m, err := c.receive(s.options.Timeout)
	if err == nil {
		err = checkHello(m)
	}
	if err == nil {
		conn.Proven()
		err = s.takeTurn()
	}
	if err != nil {
		c.sendError(err)
		s.log("client %v refused: %v", from, err)
		return
	}
	defer func() { <-s.serving }()
	s.log("client %v", from)
	if err = c.send(newHello(), s.options.Timeout); err == nil {
		err = serveClient(ctx, c, s.options, s.opened)
	}
	if err != nil {
		err = fmt.Errorf("client %v: %w", from, err)
	} else {
		s.log("client %v is done", from)
	}
	if s.once {
		select {
		case s.ended <- err:
		default:
		}
		return
	}
	if err != nil && ctx.Err() == nil {
		s.log("%v", err)
	}
}

// takeTurn waits a moment for the client before to be gone.
func (s *Server) takeTurn() error {
	select {
	case s.serving <- struct{}{}:
		return nil
	case <-time.After(min(time.Second, s.options.Timeout/2)):
		return errors.New("busy with another client: try again later")
	}
}
