package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/internal/bounded"
)

// Server accepts clients and serves several of them at the same time.
type Server struct {
	ServerConfig
	options Options

	slots chan int // numbers of the places that are free
	// ended receives the result of the first run that was served.
	ended chan error

	lock    sync.Mutex // guards what follows, for Once
	run     string     // the one that is served
	clients int        // of that run, connected now
	verdict error      // the first of its errors
}

// ServerConfig has the settings of a Server. The functions in a ServerConfig are called from
// several goroutines.
type ServerConfig struct {
	// Clients is the number of clients that are served at the same time, at least 1, where each
	// stream of a run counts as a client.
	Clients int
	// Once makes the server end after one run.
	Once bool
	// Opened is called for each side with the index of its client, and Log for each client.
	Opened func(side *layers.Side, slot int)
	Log    func(format string, args ...any)
	// Served is called with the measurements of the server for a client that has ended.
	Served func(from net.Addr, list []*Served)
}

// ClientsMax is the maximum of ServerConfig.Clients.
const ClientsMax = 256

// NewServer returns a server without clients.
func NewServer(o Options, c ServerConfig) *Server {
	s := &Server{
		ServerConfig: c, options: o, slots: make(chan int, c.Clients), ended: make(chan error, 1),
	}
	for slot := range c.Clients {
		s.slots <- slot
	}
	return s
}

// Serve accepts clients until ctx is done, and returns the cause of ctx, or with once until one run
// has been served. Serve closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) (err error) {
	guests := bounded.NewListener(listener, guestsMax+s.Clients, fullLine)
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
	// guestsMax is the largest number of simultaneous connections that are not clients yet.
	guestsMax = 64
	// fullLine is the line for a connection that is refused because there are too many.
	fullLine = `{"type":"error","error":"busy with other connections: try again later"}` + "\n"
)

// serveConn serves one connection of a possibly hostile peer.
func (s *Server) serveConn(ctx context.Context, conn *bounded.Guest) {
	from := conn.RemoteAddr()
	c := newControlConn(conn)
	m, err := c.receive(s.options.Timeout)
	if err == nil {
		err = checkHello(m)
	}
	var slot int
	if err == nil {
		conn.Proven()
		slot, err = s.enter(m.Hello.Run)
	}
	if err != nil {
		c.sendError(err)
		s.Log("client %v refused: %v", from, err)
		return
	}
	s.Log("client %v", from)
	if err = c.send(newHello(""), s.options.Timeout); err == nil {
		var list servedList
		list, err = serveClient(ctx, c, s.options, slot, s.Opened)
		s.Served(from, list)
	}
	if err != nil {
		err = fmt.Errorf("client %v: %w", from, err)
	} else {
		s.Log("client %v is done", from)
	}
	if !s.Once && err != nil && ctx.Err() == nil {
		s.Log("%v", err)
	}
	s.leave(slot, err)
}

// enter adds a client of a run, and waits briefly for an earlier client to leave.
func (s *Server) enter(run string) (slot int, err error) {
	select {
	case slot = <-s.slots:
	case <-time.After(min(time.Second, s.options.Timeout/2)):
		return 0, fmt.Errorf("busy: this server serves %d at a time (serve --clients); try again later",
			s.Clients)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.Once && s.clients > 0 && (run == "" || run != s.run) {
		s.slots <- slot
		return 0, errors.New("busy with another client, and ends after it (serve --once)")
	}
	s.run = run
	s.clients++
	return slot, nil
}

// leave undoes enter. All clients of a run connect before the first one leaves, so that the last
// one to leave ends the run.
func (s *Server) leave(slot int, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.slots <- slot
	s.clients--
	s.verdict = cmp.Or(s.verdict, err)
	if s.Once && s.clients == 0 {
		select {
		case s.ended <- s.verdict:
		default:
		}
	}
}
