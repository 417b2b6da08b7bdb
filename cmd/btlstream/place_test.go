package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"gobtl/internal/bounded"
	"gobtl/stream"
)

// dialWithin connects to an address where somebody will listen soon.
func dialWithin(ctx context.Context, t *testing.T, address string) net.Conn {
	t.Helper()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn
		}
		if !sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) {
			t.Fatal(err)
		}
	}
}

// A stranger that sends one line to one address of this host, and goes, does not choose the address
// of this side. The sender of another network connects again as it was told, and chooses it.
func TestPlaceOfStranger(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(probe.Addr().String())
	_ = probe.Close()
	s := &session{
		env: &environment{log: bounded.NewLog(io.Discard, "btlstream"), ctx: ctx},
		c:   &cli{Listen: "0.0.0.0:" + port},
	}
	found := make(chan error, 1)
	go func() { found <- s.findGuest(ctx) }()
	id := stream.Identity{Role: stream.RoleSender, Key: 1, Name: []byte("nobody")}
	stranger := dialWithin(ctx, t, "127.0.0.2:"+port)
	fmt.Fprintln(stranger, id)
	_, _ = io.ReadAll(stranger)
	_ = stranger.Close()
	visit, end := context.WithCancel(ctx)
	defer end()
	go func() { _, _ = stream.ExchangeAt("127.0.0.1:"+port)(visit, id) }() // comes again and again
	if err := <-found; err != nil {
		t.Fatal(err)
	}
	if got := hostOf(s.met); got != "127.0.0.1" {
		t.Errorf("this side is at %s, where only the stranger came", got)
	}
}

// visitFrom returns the address of a visitor from a host.
func visitFrom(ip string, port int) net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(ip), Port: port}
}

// The peers that are kept in mind are bounded.
func TestVisits(t *testing.T) {
	v := newVisits()
	to := visitFrom("198.51.100.1", 1)
	at := func(i int) net.Addr { return visitFrom(fmt.Sprint("192.0.2.", i), 1000+i) }
	for i := range 3 * guestsMost {
		if v.again(at(i), to, "line") {
			t.Errorf("visitor %d was not here before", i)
		}
	}
	latest := 3*guestsMost - 1
	switch {
	case v.list.Bytes() != guestsMost:
		t.Errorf("%d visitors are kept", v.list.Bytes())
	case !v.again(at(latest), to, "line"):
		t.Error("the latest visitor is forgotten")
	case v.again(at(latest), at(1), "line") || v.again(at(latest), to, "another line"):
		t.Error("another visit counts as the same")
	}
}

// The visitors of one host displace each other, and not the visitor of another host.
func TestVisitsOfOneHost(t *testing.T) {
	for _, crowd := range []string{"192.0.2.7", "2001:db8::N"} {
		v := newVisits()
		to, honest := visitFrom("198.51.100.1", 1), visitFrom("203.0.113.5", 1)
		come := func(visits int) {
			for i := range visits {
				ip := strings.ReplaceAll(crowd, "N", fmt.Sprintf("%x", i))
				v.again(visitFrom(ip, i), to, fmt.Sprint("line ", rand.Text()))
			}
		}
		come(guestsMost)
		if v.again(honest, to, "line") {
			t.Errorf("%s: a visitor was not here before", crowd)
		}
		come(3 * guestsMost)
		if v.list.Bytes() != guestsMost {
			t.Errorf("%s: %d visitors are kept", crowd, v.list.Bytes())
		}
		if !v.again(honest, to, "line") {
			t.Errorf("%s: the visitors of one host displace the visitor of another host", crowd)
		}
	}
}
