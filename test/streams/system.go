package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/xtaci/kcp-go/v5"
	"golang.org/x/sys/unix"

	"gobtl"
	"gobtl/btl/conn"
)

// system is a way to open streams to another process.
type system struct {
	name, title string
	listen      func(host string) (net.Listener, error)
	dial        func(ctx context.Context, address string) (dialer, error)
}

// dialer opens streams to one server.
type dialer interface {
	open(ctx context.Context) (net.Conn, error)
	close() error
}

var systems = []*system{
	{"tcp", "TCP, CUBIC", listenTCP("cubic"), dialTCP("cubic")},
	{"tcp-bbr", "TCP, BBR", listenTCP("bbr"), dialTCP("bbr")},
	{"quic-go", "quic-go", listenQUIC, dialQUIC},
	{"kcp-go", "kcp-go", listenKCP, dialKCP},
	{"gobtl", "gobtl", listenGobtl, dialGobtl},
}

// base is the system with which the other systems are compared.
const base = "tcp"

func systemOf(name string) (*system, error) {
	var names []string
	for _, s := range systems {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return nil, fmt.Errorf("no system %q; there are %s", name, strings.Join(names, ", "))
}

// congestion returns a function for net.ListenConfig and net.Dialer that selects TCP's congestion
// control.
func congestion(rules string) func(_, _ string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, rules)
		})
		if err == nil {
			err = e
		}
		if err != nil {
			err = fmt.Errorf("TCP's congestion control %q: %w", rules, err)
		}
		return err
	}
}

func listenTCP(rules string) func(host string) (net.Listener, error) {
	return func(host string) (net.Listener, error) {
		config := net.ListenConfig{Control: congestion(rules)}
		return config.Listen(context.Background(), "tcp", net.JoinHostPort(host, "0"))
	}
}

type tcpDialer struct {
	net.Dialer
	address string
}

func dialTCP(rules string) func(context.Context, string) (dialer, error) {
	return func(_ context.Context, address string) (dialer, error) {
		return tcpDialer{net.Dialer{Control: congestion(rules)}, address}, nil
	}
}

func (d tcpDialer) open(ctx context.Context) (net.Conn, error) {
	return d.DialContext(ctx, "tcp", d.address)
}

func (tcpDialer) close() error { return nil }

// kcpListener configures the sessions that it accepts.
type kcpListener struct{ *kcp.Listener }

func listenKCP(host string) (net.Listener, error) {
	l, err := kcp.ListenWithOptions(net.JoinHostPort(host, "0"), nil, 0, 0)
	return kcpListener{l}, err
}

func (l kcpListener) Accept() (net.Conn, error) {
	s, err := l.AcceptKCP()
	if err != nil {
		return nil, err
	}
	return fast(s), nil
}

// fast gives a session large windows and the settings that kcp-go's own programs call fast.
func fast(s *kcp.UDPSession) net.Conn {
	const interval, resend, window = 10, 2, 2048
	s.SetStreamMode(true)
	s.SetNoDelay(1, interval, resend, 1)
	s.SetWindowSize(window, window)
	s.SetACKNoDelay(true)
	s.SetWriteDelay(false)
	return s
}

type kcpDialer string

func dialKCP(_ context.Context, address string) (dialer, error) { return kcpDialer(address), nil }

func (d kcpDialer) open(context.Context) (net.Conn, error) {
	s, err := kcp.DialWithOptions(string(d), nil, 0, 0)
	if err != nil {
		return nil, err
	}
	return fast(s), nil
}

func (kcpDialer) close() error { return nil }

func listenGobtl(host string) (net.Listener, error) {
	cfg := gobtl.Config{Streams: conn.Config{Backlog: 4096}} // as net.core.somaxconn for TCP
	node, err := cfg.Listen(net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	return gobtlListener{node.Listener(), node}, nil
}

// gobtlListener also has the address that other hosts dial.
type gobtlListener struct {
	net.Listener
	node *gobtl.Node
}

type gobtlDialer struct {
	node *gobtl.Node
	peer *gobtl.Peer
}

func dialGobtl(ctx context.Context, address string) (dialer, error) {
	node, err := gobtl.Open()
	if err != nil {
		return nil, err
	}
	peer, err := node.Dial(ctx, address)
	return gobtlDialer{node, peer}, err
}

func (d gobtlDialer) open(ctx context.Context) (net.Conn, error) { return d.peer.OpenStream(ctx) }

func (d gobtlDialer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return d.node.Close(ctx)
}

// chosen returns the systems with the given names, or all systems if no name is given.
func chosen(names []string) (list []*system, err error) {
	for _, name := range names {
		s, err := systemOf(name)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return systems, nil
	}
	return slices.Clip(list), nil
}
