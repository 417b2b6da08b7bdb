package conn_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric"
)

// local is the opener of udp on the loopback device.
func local(cfg fabric.DomainConfig) (fabric.Domain, fabric.Info, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil || cfg == (fabric.DomainConfig{}) {
		return nil, infos[0], err
	}
	d, err := fabric.Open(infos[0], cfg)
	return d, infos[0], err
}

// DialContext takes the name of a host, of whose addresses some may not be of this module's kind.
func TestDialName(t *testing.T) {
	p := newPair(t, local, conn.Config{}, btl.Config{})
	listener, err := p.server.Listen("")
	must(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	c, err := p.client.DialContext(t.Context(), "tcp", net.JoinHostPort("localhost", port))
	must(t, err)
	if got := c.RemoteAddr().String(); !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("it has reached %s", got)
	}
	must(t, c.Close())
	_, err = p.client.DialContext(t.Context(), "tcp", net.JoinHostPort("no-such-host.invalid", port))
	if dns := new(net.DNSError); !errors.As(err, &dns) {
		t.Errorf("a name that nobody has: %v", err)
	}
	_, err = p.client.DialContext(t.Context(), "tcp", "[::1]:"+port)
	if !errors.Is(err, btl.ErrBadName) {
		t.Errorf("an address of the other version: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = p.client.DialContext(ctx, "tcp", "localhost:"+port); err == nil {
		t.Error("the context has ended, and there is no error")
	}
}

// TestReachPastKept reaches the second of two addresses while the module at the first keeps the
// request. The last address may keep the request for as long as the context allows.
func TestReachPastKept(t *testing.T) {
	const timeout = 300 * time.Millisecond
	p := newPair(t, local, conn.Config{}, btl.Config{})
	listener, err := p.server.Listen("")
	must(t, err)
	accepts := listener.Addr().String()
	keeper := open(t, local, conn.Config{}, btl.Config{})
	asked, keeps := make(chan btl.Request, 16), ""
	must(t, keeper.run.Do(t.Context(), func(m *btl.Module) error {
		keeps = m.Address()
		m.Admit(func(r btl.Request) btl.Verdict {
			asked <- r
			return btl.Keep(btl.KeepMax)
		})
		return nil
	}))
	client := open(t, local, conn.Config{}, btl.Config{HandshakeTimeout: timeout})
	ctx, cancel := context.WithTimeout(t.Context(), btl.KeepMax/2)
	defer cancel()
	_, err = client.Reach(ctx, keeps, "[::1]:1")
	if !errors.Is(err, btl.ErrUnreachable) || !errors.Is(err, btl.ErrBadName) || ctx.Err() != nil {
		t.Errorf("a request that is kept, then a bad address: %v", err)
	}
	ep, err := client.Reach(ctx, keeps, accepts)
	must(t, err)
	if ep.PeerAddress() == keeps {
		t.Error("the module that keeps the request has answered")
	}
	request := <-asked
	time.AfterFunc(2*timeout, func() {
		_ = keeper.run.Do(ctx, func(m *btl.Module) error {
			return request.Decide(m.Now(), btl.Accept())
		})
	})
	_, err = client.Reach(ctx, "[::1]:1", keeps)
	must(t, err)
}

// The addresses of both ends have the form that package net's tools take, over each network.
func TestAddressForm(t *testing.T) {
	all(t, func(t *testing.T, with opener) {
		p := newPair(t, with, conn.Config{}, btl.Config{})
		a, b := p.dial(t)
		for _, addr := range []net.Addr{
			a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr(), p.listener.Addr(),
		} {
			host, port, err := net.SplitHostPort(addr.String())
			if err != nil || host == "" || port == "" {
				t.Errorf("%q: %q, %q, %v", addr, host, port, err)
			}
		}
	})
}
