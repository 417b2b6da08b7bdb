package session

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"gobtl/cmd/btlbench/layers"
)

// dialFrom connects to a server from an address of its own, and says hello.
func dialFrom(t *testing.T, from, addr string) *controlConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := newControlConn(conn)
	if err := c.send(newHello(""), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPlacesOfOneHost: one host takes three quarters of the places and no more, even if it says
// hello very often. Meanwhile a client of another host is served.
func TestPlacesOfOneHost(t *testing.T) {
	const places, hellos = 8, 4 * (guestsMax + 8)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Options{Timeout: 20 * time.Second}, ServerConfig{
		Clients: places, Opened: func(*layers.Side, int) {}, Log: func(string, ...any) {},
		Served: func(net.Addr, []*Served) {},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	var all []*controlConn
	defer func() {
		for _, c := range all { // the server waits for what its clients say
			c.close()
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	welcomed := make(chan bool, hellos)
	for range hellos {
		c := dialFrom(t, "127.0.0.2", listener.Addr().String())
		all = append(all, c)
		go func() {
			m, err := c.receive(10 * time.Second)
			welcomed <- err == nil && m.Type == msgHello
			_, _ = io.Copy(io.Discard, c.conn) // it keeps its place
		}()
	}
	other := dialFrom(t, "127.0.0.3", listener.Addr().String())
	all = append(all, other)
	if m, err := other.receive(10 * time.Second); err != nil || m.Type != msgHello {
		t.Errorf("a client of another host: %+v, %v", m, err)
	}
	got := 0
	for range hellos {
		if <-welcomed {
			got++
		}
	}
	if got != places-places/hostShare {
		t.Errorf("one host has %d of %d places", got, places)
	}
}
