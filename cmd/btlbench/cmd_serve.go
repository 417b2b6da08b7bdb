package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// serveCmd waits for clients and serves them one after the other.
//
//nolint:lll // A struct tag cannot be broken.
type serveCmd struct {
	Listen  string        `help:"HOST:PORT to listen on for clients; port 0 picks one." default:":4711" placeholder:"ADDR"`
	Once    bool          `help:"End after one client."`
	Node    string        `help:"Local address for the fabric. Default: the one that the client came to." placeholder:"ADDR"`
	CPUs    cpuList       `name:"cpus" help:"CPU to pin to. Default: none." placeholder:"CPU"`
	Set     []string      `help:"Set a tunable on this side, whatever the client asks for. Repeatable." placeholder:"NAME=VALUE" sep:"none"`
	Metrics string        `help:"Serve Prometheus metrics of this side on HOST:PORT/metrics." placeholder:"ADDR"`
	Timeout time.Duration `help:"Time for a client to introduce itself." default:"5s"`

	// For pair, which starts this command as its server.
	Quiet bool    `help:"Say nothing about clients." hidden:""`
	Avoid cpuList `help:"CPUs of hot loops: other threads keep off them." hidden:""`
}

// Validate is called by kong after parsing.
func (c *serveCmd) Validate() error {
	if c.Timeout <= 0 {
		return errors.New("--timeout must be positive")
	}
	if err := checkAddress("--listen", c.Listen); err != nil {
		return err
	}
	f := benchFlags{Set: c.Set}
	if err := f.validateSet(); err != nil {
		return err
	}
	return checkAddress("--metrics", c.Metrics)
}

func (c *serveCmd) cpu() int {
	if len(c.CPUs) == 0 {
		return -1
	}
	return c.CPUs[0]
}

// nodeFor is the address to bind for a client that came to the local address.
func (c *serveCmd) nodeFor(local net.Addr) nodeHint { return nodeOr(c.Node, local) }

// server is a running serveCmd.
type server struct {
	*serveCmd
	env      *environment
	listener net.Listener
	metrics  *metricsServer
	serving  chan struct{} // holds a value while a client is served
	conns    sync.WaitGroup
	// ended receives the verdict of the first client that was served.
	ended chan error
}

// Run is called by kong.
func (c *serveCmd) Run(env *environment) error {
	keepRuntimeOff(append(c.Avoid, c.CPUs...))
	metrics, err := serveMetrics(env, c.Metrics)
	if err != nil {
		return err
	}
	defer metrics.close()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen",
			c.Listen, err)
	}
	s := &server{
		serveCmd: c, env: env, listener: listener, metrics: metrics, serving: make(chan struct{}, 1),
		ended: make(chan error, 1),
	}
	if _, err := fmt.Fprintln(env.stdout, listeningPrefix+listener.Addr().String()); err != nil {
		return err
	}
	err = s.serve()
	if c.Quiet && err != nil {
		return &toldError{err}
	}
	return err
}

// listeningPrefix begins the line that tells where a server listens; pair reads it.
const listeningPrefix = "listening on "

// serve accepts clients until the user stops it, or with --once until one has been served.
func (s *server) serve() (err error) {
	go s.accept()
	select {
	case <-s.env.ctx.Done():
		err = s.env.cause()
	case err = <-s.ended:
	}
	_ = s.listener.Close() // It ends accept; there is nothing else that it could fail to do.
	s.conns.Wait()
	return err
}

func (s *server) accept() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // Out of file descriptors, a client gone already: neither ends the server.
			s.env.notef("accepting a client: %v", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.conns.Go(func() { s.serveConn(conn) })
	}
}

// serveConn serves one connection, whoever is at its other end.
func (s *server) serveConn(conn net.Conn) {
	defer conn.Close()
	from := conn.RemoteAddr()
	c := newControlConn(conn)
	m, err := c.receive(s.Timeout)
	if err == nil {
		err = checkHello(m)
	}
	if err == nil {
		err = s.takeTurn()
	}
	if err != nil {
		c.sendError(err)
		s.log("client %v refused: %v", from, err)
		return
	}
	defer func() { <-s.serving }()
	s.log("client %v", from)
	if err = c.send(newHello(), s.Timeout); err == nil {
		err = serveClient(s.env, c, s.serveCmd, s.metrics.watch)
	}
	if err != nil {
		err = fmt.Errorf("client %v: %w", from, err)
	} else {
		s.log("client %v is done", from)
	}
	if s.Once {
		select {
		case s.ended <- err:
		default:
		}
		return
	}
	if err != nil && !isInterrupt(err) {
		s.log("%v", err)
	}
}

// takeTurn waits a moment for the client before to be gone.
func (s *server) takeTurn() error {
	select {
	case s.serving <- struct{}{}:
		return nil
	case <-time.After(min(time.Second, s.Timeout/2)):
		return errors.New("busy with another client: try again later")
	}
}

// log tells what happens, unless a parent does.
func (s *server) log(format string, args ...any) {
	if !s.Quiet {
		s.env.notef(format, args...)
	}
}
