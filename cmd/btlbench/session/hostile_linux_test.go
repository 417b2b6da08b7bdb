package session

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"

	_ "gobtl/fabric/udp"
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

// A client offers the address of a third party. The server does not begin to measure, and the third
// party gets nothing, although somebody sends a datagram to the server.
func TestThirdPartyOfRaw(t *testing.T) {
	listen := func() *net.UDPConn {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	victim, stranger := listen(), listen()
	at, _ := victim.LocalAddr().(*net.UDPAddr)
	c := dialIdle(t, serveHere(t))
	defer c.close()
	name := append(binary.BigEndian.AppendUint16([]byte{4}, uint16(at.Port)), at.IP.To4()...)
	ask := func(m *message) (*message, error) {
		if err := c.send(m, time.Second); err != nil {
			t.Fatal(err)
		}
		return c.receive(20 * time.Second)
	}
	opened, err := ask(&message{Type: msgSetup, Setup: &setupMsg{
		Config: layers.Config{
			Provider: "udp", Layers: []string{plan.LayerRaw}, PeerTimeoutNs: 1e9, TimeoutNs: 1e9,
		},
		Layers: []layers.Offer{{
			Layer: plan.LayerRaw, Name: name, RecvCapacity: math.MaxInt, MTUBytes: 1472,
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	name = opened.Opened.Layers[0].Name
	to := &net.UDPAddr{IP: net.IP(name[3:7]), Port: int(binary.BigEndian.Uint16(name[1:]))}
	if _, err := stranger.WriteToUDP(make([]byte, 1000), to); err != nil {
		t.Fatal(err)
	}
	var remote *remoteError
	if m, err := ask(&message{Type: msgMeet}); !errors.As(err, &remote) {
		t.Errorf("the address of a third party is used: %+v, %v", m, err)
	}
	_ = victim.SetReadDeadline(time.Now())
	if n, err := victim.Read(make([]byte, 2000)); err == nil {
		t.Errorf("the third party got a datagram of %d bytes", n)
	}
}
