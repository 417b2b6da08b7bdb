package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"gobtl/internal/bounded"
	"gobtl/stream"
)

// The datagrams take the addresses of a meeting that has succeeded. Names have several addresses,
// of which one may be answered, and a host that listens everywhere has several, of which a peer has
// come to one: so these are found by a first visit, before this side opens its port.

const (
	// visitAgain is between two visits to a peer that is not there yet.
	visitAgain = 50 * time.Millisecond
	// guestTime bounds the time until a guest sends its line. guestsMost bounds the guests that are
	// read at the same time.
	guestTime  = 5 * time.Second
	guestsMost = 64
	// guestLineMost is the longest line of a guest, in bytes: its identity.
	guestLineMost = 1024
	// later has a guest come again.
	later = "later\n"
)

// findPlace finds out which of its addresses this side is met at, where that is not said.
func (s *session) findPlace() error {
	if s.c.Node != "" {
		return nil
	}
	ctx, cancel := s.meetingContext()
	defer cancel()
	for i, address := range s.c.Connect {
		if err := s.findPeer(ctx, i, address); err != nil {
			return err
		}
	}
	if s.c.Listen == "" || s.c.Device != "" {
		return nil
	}
	host, _, err := net.SplitHostPort(s.c.Listen)
	if ip, bad := netip.ParseAddr(host); err != nil || bad == nil && !ip.IsUnspecified() {
		return nil // What is wrong is told by who listens.
	}
	return s.findGuest(ctx)
}

// findPeer goes to a peer that is called by its name, and keeps the address that was answered.
func (s *session) findPeer(ctx context.Context, i int, address string) error {
	host, _, err := net.SplitHostPort(address)
	if _, bad := netip.ParseAddr(host); err != nil || bad == nil {
		return nil
	}
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			s.c.Connect[i] = conn.RemoteAddr().String()
			return conn.Close()
		}
		var wrong *net.AddrError
		if errors.As(err, &wrong) {
			return fmt.Errorf("%w: %w", stream.ErrExchange, err)
		}
		if !sleepUntil(ctx, time.Now().Add(visitAgain)) {
			return fmt.Errorf("%w: %w", stream.ErrTimeout, err)
		}
	}
}

// findGuest waits for the first peer that sends its identity, keeps the local address of that
// connection, and tells the peer to connect again.
func (s *session) findGuest(ctx context.Context) error {
	l, err := net.Listen("tcp", s.c.Listen)
	if err != nil {
		return fmt.Errorf("%w: %w", stream.ErrExchange, err)
	}
	listener := bounded.NewListener(l, guestsMost, later)
	defer func() { _ = listener.Close() }() // Nobody is there but who was sent away.
	s.c.Listen = l.Addr().String()
	s.env.logf(logNotice, "listening on %v", l.Addr())
	come := make(chan net.Addr, 1)
	go listener.Serve(func(g *bounded.Guest) {
		_ = g.SetDeadline(time.Now().Add(guestTime))
		line, err := bounded.NewLines(g, guestLineMost).Next()
		if err != nil {
			return
		}
		if _, err := stream.ParseIdentity(string(line)); err != nil {
			return
		}
		g.Proven()
		_, _ = io.WriteString(g, later)
		select {
		case come <- g.LocalAddr():
		default: // Another one was first.
		}
	})
	select {
	case at := <-come:
		s.met = at
		return nil
	case <-ctx.Done():
	}
	if cause := context.Cause(s.env.ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("%w: nobody came to %v", stream.ErrTimeout, l.Addr())
}

// hostOf is the address of a meeting without its port; empty: it is everywhere.
func hostOf(a net.Addr) string {
	at, ok := a.(*net.TCPAddr)
	if !ok || at.IP.IsUnspecified() {
		return ""
	}
	return (&net.IPAddr{IP: at.IP, Zone: at.Zone}).String()
}
