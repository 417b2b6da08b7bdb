package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"gobtl/internal/bounded"
	"gobtl/internal/kept"
	"gobtl/stream"
)

// The functions below find the local address of this host by a first TCP connection to a peer,
// before this side opens its port. A host name may have several addresses, of which only some
// answer.

const (
	// visitAgain is the time between two attempts to connect to a peer that does not listen yet.
	visitAgain = 50 * time.Millisecond
	// guestTime is the longest wait for the line of a connected peer. guestsMost is the maximum
	// number of connected peers whose lines are read at the same time.
	guestTime  = 5 * time.Second
	guestsMost = 64
	// guestLineMost is the maximum length in bytes of a peer's line, which holds the peer's
	// identity.
	guestLineMost = 1024
	// The constant later is the line that makes a peer connect again. wrongSide is the line that tells
	// a peer with this side's role why this side refuses it.
	later     = "later\n"
	wrongSide = "no: that is a %[1]v's, want the other side of a stream: this is a %[1]v, too\n"
)

// findPlace finds the local address to which peers connect, if no option names the address.
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
		return nil // Listen reports the error.
	}
	return s.findGuest(ctx)
}

// findPeer connects to a peer by its host name, and keeps the address that has answered.
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

// findGuest waits for a peer of the opposite role that sends its identity, and that connects again
// with the same identity as it was told. findGuest keeps the local address of the peer's
// connection. A single line of a stranger chooses no address, because a peer of another network
// could then not find this side.
func (s *session) findGuest(ctx context.Context) error {
	l, err := net.Listen("tcp", s.c.Listen)
	if err != nil {
		return fmt.Errorf("%w: %w", stream.ErrExchange, err)
	}
	listener := bounded.NewListener(l, guestsMost, later)
	defer func() { _ = listener.Close() }() // All connected peers were told to connect again.
	s.c.Listen = l.Addr().String()
	s.env.logf(logNotice, "listening on %v", l.Addr())
	come := make(chan net.Addr, 1)
	known := newVisits()
	go listener.Serve(func(g *bounded.Guest) {
		_ = g.SetDeadline(time.Now().Add(guestTime))
		line, err := bounded.NewLines(g, guestLineMost).Next()
		if err != nil {
			return
		}
		id, err := stream.ParseIdentity(string(line))
		if err != nil {
			return
		}
		if id.Role == s.role() {
			_, _ = fmt.Fprintf(g, wrongSide, id.Role)
			return
		}
		g.Proven()
		_, _ = io.WriteString(g, later)
		if !known.again(g.RemoteAddr(), g.LocalAddr(), string(line)) {
			return
		}
		select {
		case come <- g.LocalAddr():
		default: // Another peer was first.
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

// visits are peers that were told to connect again, at most guestsMost. When a further peer comes,
// the host with the most visits, among them that of the further peer, loses its oldest visit. A
// host that connects again and again thus displaces its own visits only, as
// soon as it has the most.
type visits struct {
	lock sync.Mutex // guards the field below
	list *kept.Keeper[visitor]
}

// visitor is a peer that has connected to an address of this host.
type visitor struct{ from, to, line string }

func newVisits() *visits { return &visits{list: kept.New[visitor](guestsMost)} }

// again reports whether a peer was here before, and keeps the peer in mind.
func (v *visits) again(from, to net.Addr, line string) bool {
	v.lock.Lock()
	defer v.lock.Unlock()
	peer := visitor{bounded.HostOf(from), bounded.HostOf(to), line}
	if v.list.Has(peer) {
		return true
	}
	v.list.Add(bounded.ShareOf(from), peer, 1)
	return false
}

// role returns the role of this side.
func (s *session) role() stream.Role {
	if s.c.Send {
		return stream.RoleSender
	}
	return stream.RoleReceiver
}

// hostOf returns the address of a meeting without the port. An unspecified address results in an
// empty string.
func hostOf(a net.Addr) string {
	at, ok := a.(*net.TCPAddr)
	if !ok || at.IP.IsUnspecified() {
		return ""
	}
	return (&net.IPAddr{IP: at.IP, Zone: at.Zone}).String()
}
