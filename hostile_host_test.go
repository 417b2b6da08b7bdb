package gobtl_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"gobtl"
	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/conn"
)

// One host with many ports leaves places in the backlog for other hosts.
func TestBacklogByHost(t *testing.T) {
	const backlog = 16
	server, good, _ := peerOfOtherHost(t, gobtl.Config{Streams: conn.Config{Backlog: backlog}})
	var all sync.WaitGroup
	for range 6 { // by address, five ports would fill the backlog
		bad := dial(t, open(t, gobtl.Config{}), server.Address())
		all.Go(func() {
			var err error
			for n := 0; n < 2*backlog && err == nil; n++ {
				_, err = bad.OpenStream(t.Context())
			}
			if !errors.Is(err, conn.ErrBacklog) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := good.OpenStream(t.Context()); err != nil {
		t.Errorf("a peer of another host: %v", err)
	}
}

// Hosts take turns in Take: one host with many ports does not delay the messages of other hosts.
func TestTakeByHost(t *testing.T) {
	const ports, messages = 10, 12
	server, good, _ := peerOfOtherHost(t, gobtl.Config{})
	fill := func(p *gobtl.Peer, data string) {
		for range messages {
			must(t, p.Enqueue(t.Context(), []byte(data)))
		}
		must(t, p.Link().Runner().Flush(t.Context(), p.Endpoint()))
	}
	for range ports {
		fill(dial(t, open(t, gobtl.Config{}), server.Address()), "bad")
	}
	fill(good, "good")
	goods := 0
	for range 2 * (ports + 1) {
		msg, err := server.Take(t.Context())
		must(t, err)
		if string(msg.Data) == "good" {
			goods++
		}
	}
	if goods < ports {
		t.Errorf("of %d messages %d are of a host that has one port beside %d", 2*(ports+1), goods, ports)
	}
}

// One host whose many ports come and go leaves what another host has left before.
func TestGoneByHost(t *testing.T) {
	const window, streams, ports = 4096, 4, 20
	ended := make(chan *gobtl.Peer, 2*ports)
	server, good, node := peerOfOtherHost(t, gobtl.Config{
		Streams: conn.Config{WindowBytes: window, GoneBytes: 10 * 2 * window},
		OnPeer: func(p *gobtl.Peer, ev btl.Event, _ error) {
			if ev != btl.EventConnected {
				ended <- p
			}
		},
	})
	leave := func(p *gobtl.Peer, of *gobtl.Node, streams, bytes int) (accepted []net.Conn) {
		for range streams {
			c, err := p.OpenStream(t.Context())
			must(t, err)
			_, err = c.Write(make([]byte, bytes))
			must(t, err)
			a, err := server.Accept()
			must(t, err)
			accepted = append(accepted, a)
		}
		closeNode(t, of)
		<-ended
		return accepted
	}
	left := leave(good, node, streams, window)
	for range ports {
		bad := open(t, gobtl.Config{})
		leave(dial(t, bad, server.Address()), bad, 1, 1)
	}
	for _, c := range left {
		if b, err := io.ReadAll(c); len(b) != window || err != nil {
			t.Errorf("%d bytes of the good peer, %v", len(b), err)
		}
	}
}

// One host whose many ports hold all of Total leaves concurrent calls to other hosts.
func TestCallsByHost(t *testing.T) {
	const total, each = 8, 4
	server, good, _ := peerOfOtherHost(t, gobtl.Config{
		Calls: call.Config{Concurrent: each, Total: total},
	})
	entered := make(chan struct{}, 4*total)
	must(t, server.Handle("wait", func(ctx context.Context, _ *gobtl.Request) ([]byte, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	begin := func(p *gobtl.Peer) error {
		failed := make(chan error, 1)
		calls.Go(func() {
			_, err := p.Call(ctx, "wait", nil)
			failed <- err
		})
		select {
		case <-entered:
			return nil
		case err := <-failed:
			return err
		}
	}
	for range total / each {
		bad := dial(t, open(t, gobtl.Config{}), server.Address())
		for range each {
			must(t, begin(bad))
		}
	}
	bad := dial(t, open(t, gobtl.Config{}), server.Address())
	must(t, begin(bad)) // a peer may always have one
	if err := begin(bad); !errors.Is(err, call.ErrBusy) {
		t.Errorf("beyond the limit of a host: %v", err)
	}
	for range 3 {
		if err := begin(good); err != nil {
			t.Errorf("a peer of another host: %v", err)
		}
	}
}
