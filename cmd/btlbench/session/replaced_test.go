package session

import (
	"net"
	"testing"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/internal/bounded"
)

// heldConn is a connection whose Close waits for the end of the test.
type heldConn struct {
	net.Conn
	free chan struct{}
}

func (c heldConn) Close() error {
	<-c.free
	return c.Conn.Close()
}

// TestReplacedClient: the listener replaces a connection while the connection's client gets a
// place. The client is not told that it is served, and its place is free again.
func TestReplacedClient(t *testing.T) {
	served, client := net.Pipe()
	other, _ := net.Pipe()
	held := heldConn{served, make(chan struct{})}
	conns := make(handed, 2)
	conns <- held
	conns <- other
	listener := bounded.NewListener(conns, 1, "")
	first, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Accept(); err != nil { // replaces the first one
		t.Fatal(err)
	}
	s := NewServer(Options{Timeout: 20 * time.Second}, ServerConfig{
		Clients: 1, Opened: func(*layers.Side, int) {}, Log: t.Logf,
		Served: func(net.Addr, []*Served) {},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serveConn(t.Context(), first.(*bounded.Guest)) //nolint:forcetypeassert // a Guest
	}()
	c := newControlConn(client)
	if err := c.send(newHello(""), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	heard := make(chan *message, 1)
	go func() {
		if m, err := c.receive(20 * time.Second); err == nil {
			heard <- m
		}
	}()
	select {
	case <-done:
	case m := <-heard:
		t.Errorf("a client that was replaced hears %+v", m)
	}
	close(held.free)
	c.close()
	<-done
	if len(s.slots) != 1 || s.clients != 0 {
		t.Errorf("%d places are free, and %d clients are served", len(s.slots), s.clients)
	}
}
