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
	"gobtl/internal/plain"
)

// Server accepts clients and serves several of them at the same time.
type Server struct {
	ServerConfig
	options Options

	// The field ended receives the result of the first run that was served.
	ended chan error

	lock    sync.Mutex     // guards what follows
	slots   []int          // numbers of the places that are free
	hosts   map[string]int // places by the host of their clients
	freed   chan struct{}  // is closed when a place becomes free
	run     string         // the run that is served, with Once
	clients int            // clients of that run, connected now
	verdict error          // the first error of that run

	memory *memory

	lines bounded.Rate // limits the lines about clients
}

// log writes a line about a client. Any host can cause such a line as often as it likes, with texts
// of its own. The length of a line and the number of such lines in a second are bounded.
func (s *Server) log(format string, args ...any) {
	if before, ok := s.lines.Allow(); ok {
		s.Log("%s%s", before, plain.Line(fmt.Sprintf(format, args...)))
	}
}

// ServerConfig has the settings of a Server. The functions in a ServerConfig are called from
// several goroutines.
type ServerConfig struct {
	// Clients is the number of clients that are served at the same time, at least 1, where each
	// stream of a run counts as a client. Without Once, a quarter of the places is kept for the
	// clients of a second host.
	Clients int
	// Once makes the server end after one run.
	Once bool
	// Memory is the largest number of bytes for the contents of messages of all clients together,
	// where 0 means no limit. Without Once, one host gets at most three quarters of it.
	Memory int64
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
		ServerConfig: c, options: o, ended: make(chan error, 1),
		hosts: make(map[string]int), freed: make(chan struct{}),
		memory: newMemory(c.Memory, c.Once),
	}
	for slot := range c.Clients {
		s.slots = append(s.slots, slot)
	}
	return s
}

// Serve accepts clients until ctx is done, and returns the cause of ctx. With ServerConfig.Once,
// Serve ends after one run. Serve closes the listener.
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
	// fullLine is the line for a connection that the server refuses because it has too many
	// connections.
	fullLine = `{"type":"error","error":"busy with other connections: try again later"}` + "\n"
)

// serveConn serves one connection of a possibly hostile peer.
func (s *Server) serveConn(ctx context.Context, conn *bounded.Guest) {
	from := conn.RemoteAddr()
	host := bounded.ShareOf(from)
	c := newControlConn(conn)
	m, err := c.receive(s.options.Timeout)
	if err == nil {
		err = checkHello(m)
	}
	var slot int
	if err == nil {
		slot, err = s.enter(m.Hello.Run, host)
	}
	if err != nil {
		c.sendError(err)
		s.log("client %v refused: %v", from, err)
		return
	}
	// A client is proven when it has a place, because clients without a place must not fill the
	// listener.
	if !conn.Proven() { // the listener replaced the connection meanwhile
		s.log("client %v refused: busy with other connections", from)
		s.lock.Lock()
		s.vacate(slot, host)
		s.lock.Unlock()
		return
	}
	s.log("client %v", from)
	if err = c.send(newHello(""), s.options.Timeout); err == nil {
		var list servedList
		l := &loan{of: s.memory, host: host}
		list, err = serveClient(ctx, c, s.options, l, func(side *layers.Side) { s.Opened(side, slot) },
			slot)
		s.Served(from, list)
	}
	if err != nil {
		err = fmt.Errorf("client %v: %w", from, err)
	} else {
		s.log("client %v is done", from)
	}
	if !s.Once && err != nil && ctx.Err() == nil {
		s.log("%v", err)
	}
	s.leave(slot, host, err)
}

// enter adds a client of a run, and waits briefly for an earlier client to leave.
func (s *Server) enter(run, host string) (slot int, err error) {
	late := time.After(min(time.Second, s.options.Timeout/2))
	for {
		s.lock.Lock()
		if err = s.admits(run, host); err == nil {
			slot, s.slots = s.slots[0], s.slots[1:]
			s.run = run
			s.hosts[host]++
			s.clients++
		}
		freed := s.freed
		s.lock.Unlock()
		if err == nil || errors.Is(err, errOnce) {
			return slot, err
		}
		select {
		case <-freed:
		case <-late:
			return 0, err
		}
	}
}

var errOnce = errors.New("busy with another client, and ends after it (serve --once)")

// hostShare is the part of the places, as a divisor, that no single host can take.
const hostShare = 4

// admits returns the reason why a client cannot have a place now, or nil. The caller of admits
// holds the lock of the Server.
func (s *Server) admits(run, host string) error {
	kept := s.Clients / hostShare
	switch {
	case s.Once && s.clients > 0 && (run == "" || run != s.run):
		return errOnce
	case len(s.slots) == 0:
		return fmt.Errorf("busy: this server serves %d at a time (serve --clients); try again later",
			s.Clients)
	case !s.Once && s.hosts[host] >= s.Clients-kept:
		return fmt.Errorf("busy: this server keeps %d of its %d places for other hosts "+
			"(serve --clients); try again later", kept, s.Clients)
	}
	return nil
}

// The method vacate gives the place of a client back. The caller of vacate holds the lock of the
// Server.
func (s *Server) vacate(slot int, host string) {
	s.slots = append(s.slots, slot)
	if s.hosts[host]--; s.hosts[host] == 0 {
		delete(s.hosts, host)
	}
	close(s.freed)
	s.freed = make(chan struct{})
	s.clients--
}

// The method leave undoes the method enter, and keeps the first error. All clients of a run connect
// before the first one leaves, so that the last one to leave ends the run.
func (s *Server) leave(slot int, host string, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.vacate(slot, host)
	s.verdict = cmp.Or(s.verdict, err)
	if s.Once && s.clients == 0 {
		select {
		case s.ended <- s.verdict:
		default:
		}
	}
}
