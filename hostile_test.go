package gobtl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gobtl"
	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/conn"
	"gobtl/btl/queue"
	"gobtl/btl/runner"
)

// A method whose name no request can have is refused at once, and harms no other one: neither the
// links that a Node has, nor one that it opens later.
func TestBadMethodNames(t *testing.T) {
	server, client := listen(t, gobtl.Config{}, "127.0.0.1:0"), open(t, gobtl.Config{})
	h := func(context.Context, *gobtl.Request) ([]byte, error) { return nil, nil }
	for _, name := range []string{"", strings.Repeat("x", 256)} {
		for _, n := range []*gobtl.Node{server, client} {
			if err := n.Handle(name, h); !errors.Is(err, call.ErrMethod) {
				t.Errorf("%d bytes: %v", len(name), err)
			}
		}
	}
	must(t, client.Handle(strings.Repeat("x", 255), h))
	for range 2 {
		if _, err := client.Dial(t.Context(), server.Address()); err != nil {
			t.Error(err)
		}
	}
}

// Who exposes more than the module takes is told so.
func TestExposeTooMuch(t *testing.T) {
	cfg := gobtl.Config{Transport: btl.Config{RegionsMax: 1}}
	server, client := listen(t, gobtl.Config{}, "127.0.0.1:0"), open(t, cfg)
	peer := dial(t, client, server.Address())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := peer.Expose(ctx, make([]byte, 8), btl.RemoteRead)
	must(t, err)
	if _, err := peer.Expose(ctx, make([]byte, 8), btl.RemoteRead); !errors.Is(err, btl.ErrAgain) {
		t.Error(err)
	}
}

// What was exposed to a peer is taken back when the connection ends.
func TestExposedEnds(t *testing.T) {
	cfg := gobtl.Config{Transport: btl.Config{RegionsMax: 1}}
	server, client := listen(t, gobtl.Config{}, "127.0.0.1:0"), open(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for round := range 3 {
		peer := dial(t, client, server.Address())
		if _, err := peer.Expose(ctx, make([]byte, 8), btl.RemoteRead); err != nil {
			t.Fatalf("connection %d: %v", round, err)
		}
		must(t, peer.Close(ctx))
		if _, err := peer.Expose(ctx, make([]byte, 8), btl.RemoteRead); err == nil ||
			errors.Is(err, btl.ErrAgain) || ctx.Err() != nil {
			t.Errorf("to a peer that is gone: %v", err)
		}
	}
}

// OnPeer is told of the end of those peers alone of whose beginning it was told.
func TestOnPeerPairs(t *testing.T) {
	events := make(chan btl.Event, 16)
	client := open(t, gobtl.Config{
		Transport: btl.Config{HandshakeTimeout: 50 * time.Millisecond},
		OnPeer:    func(_ *gobtl.Peer, ev btl.Event, _ error) { events <- ev },
	})
	gone := listen(t, gobtl.Config{}, "127.0.0.1:0")
	address := gone.Address()
	closeNode(t, gone)
	if _, err := client.Dial(t.Context(), address); !errors.Is(err, btl.ErrUnreachable) {
		t.Fatal(err)
	}
	server := listen(t, gobtl.Config{}, "127.0.0.1:0")
	dial(t, client, server.Address())
	if ev := <-events; ev != btl.EventConnected {
		t.Errorf("the first event is %v", ev)
	}
}

// Close of a Node in a callback says that it cannot wait there, and closes nothing.
func TestCloseInCallback(t *testing.T) {
	server, client := listen(t, gobtl.Config{}, "127.0.0.1:0"), open(t, gobtl.Config{})
	told := make(chan error, 1)
	must(t, server.HandleMessage(1, func(*gobtl.Peer, []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		told <- server.Close(ctx)
	}))
	must(t, dial(t, client, server.Address()).Send(t.Context(), 1, nil))
	select {
	case err := <-told:
		if !errors.Is(err, runner.ErrInHandler) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Close waits for itself")
	}
	must(t, dial(t, client, server.Address()).Send(t.Context(), 1, nil))
	<-told
}

// Close of a Node in one of its Handlers says that it cannot wait there, and closes nothing.
// Another Node can be closed there.
func TestCloseInHandler(t *testing.T) {
	server, client := listen(t, gobtl.Config{}, "127.0.0.1:0"), open(t, gobtl.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must(t, server.Handle("close", func(ctx context.Context, _ *gobtl.Request) ([]byte, error) {
		other, err := gobtl.Open()
		if err == nil {
			err = other.Close(ctx)
		}
		if err == nil && errors.Is(server.Close(ctx), runner.ErrInHandler) {
			return []byte("told"), nil
		}
		return nil, err
	}))
	peer := dial(t, client, server.Address())
	for range 2 { // the second call finds the Node open
		if answer, err := peer.Call(ctx, "close", nil); err != nil || string(answer) != "told" {
			t.Errorf("%q, %v", answer, err)
		}
	}
}

// Close of a Node returns with its context though a handler does not return.
func TestCloseBesideStuckHandler(t *testing.T) {
	server, client := listen(t, gobtl.Config{}, "127.0.0.1:0"), open(t, gobtl.Config{})
	goOn, stuck := make(chan struct{}), make(chan struct{})
	must(t, server.HandleMessage(1, func(*gobtl.Peer, []byte) { close(stuck); <-goOn }))
	go func() { _, _ = server.Accept() }()
	go func() { _, _ = server.Take(context.Background()) }()
	peer := dial(t, client, server.Address())
	go func() { _ = peer.Send(t.Context(), 1, nil) }()
	<-stuck
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.Close(ctx) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Close waits for the handler")
	}
	close(goOn)
}

// A Node dials on when a link of its has ended, as one whose network breaks does.
func TestDialAfterBrokenLink(t *testing.T) {
	t.Run("udp", func(t *testing.T) { dialAfterBrokenLink(t, gobtl.Config{}, 1) })
	t.Run("memory", func(t *testing.T) {
		needMemory(t)
		dialAfterBrokenLink(t, gobtl.Config{SharedMemory: true}, 2) // that of UDP stays
	})
}

func dialAfterBrokenLink(t *testing.T, cfg gobtl.Config, links int) {
	server, client := listen(t, cfg, "127.0.0.1:0"), open(t, cfg)
	peer := dial(t, client, server.Address())
	ctx, cancel := context.WithCancel(t.Context())
	taken := make(chan error, 1)
	go func() { _, err := client.Take(ctx); taken <- err }()
	must(t, peer.Link().Runner().Close(t.Context()))
	<-peer.Done()
	again := dial(t, client, server.Address())
	if _, err := again.Call(t.Context(), "none", nil); !errors.Is(err, call.ErrMethod) {
		t.Error(err)
	}
	if n := len(client.Links()); n != links {
		t.Errorf("%d links", n)
	}
	cancel()
	<-taken
}

// TestDialInCallback dials in a MessageHandler. Dial would wait there for the goroutine that runs
// the MessageHandler.
func TestDialInCallback(t *testing.T) {
	server, client := listen(t, gobtl.Config{}, "127.0.0.1:0"), open(t, gobtl.Config{})
	other := listen(t, gobtl.Config{}, "127.0.0.1:0")
	told := make(chan error, 1)
	must(t, server.HandleMessage(1, func(*gobtl.Peer, []byte) {
		_, err := server.Dial(context.Background(), other.Address())
		told <- err
	}))
	must(t, dial(t, client, server.Address()).Send(t.Context(), 1, nil))
	if err := <-told; !errors.Is(err, runner.ErrInHandler) {
		t.Errorf("Dial in a MessageHandler: %v", err)
	}
}

// TestDialInHandler dials in a Handler, which runs on its own goroutine, and calls the new peer
// there. The second call finds the connection of the first call.
func TestDialInHandler(t *testing.T) {
	server, client := listen(t, gobtl.Config{}, "127.0.0.1:0"), open(t, gobtl.Config{})
	other := listen(t, gobtl.Config{}, "127.0.0.1:0")
	must(t, other.Handle("name", func(context.Context, *gobtl.Request) ([]byte, error) {
		return []byte("other"), nil
	}))
	must(t, server.Handle("ask", func(ctx context.Context, _ *gobtl.Request) ([]byte, error) {
		peer, err := server.Dial(ctx, other.Address())
		if err != nil {
			return nil, err
		}
		return peer.Call(ctx, "name", nil)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	peer := dial(t, client, server.Address())
	for range 2 {
		if answer, err := peer.Call(ctx, "ask", nil); err != nil || string(answer) != "other" {
			t.Errorf("%q, %v", answer, err)
		}
	}
}

// Messages that nobody takes are bounded for all peers together. Beyond the bound the host that
// holds the most loses a connection, although it has spread its messages over many ports.
func TestQueueTotalByHost(t *testing.T) {
	cfg := gobtl.Config{Queue: queue.Config{Bytes: 16 << 10, TotalBytes: 64 << 10}}
	server, good, _ := peerOfOtherHost(t, cfg)
	fill := func(p *gobtl.Peer, messages int) (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for range messages {
			err = errors.Join(err, p.Enqueue(ctx, make([]byte, 1<<10-64)))
		}
		return err
	}
	must(t, fill(good, 14))
	for range 8 {
		bad := dial(t, open(t, gobtl.Config{}), server.Address())
		_ = fill(bad, 9) // fails if the server has ended the connection
	}
	must(t, fill(good, 1))
}

// The memory of streams that nobody reads is bounded for all peers together. Beyond the bound the
// host that holds the most loses a connection, although it has spread its streams over many ports.
func TestStreamTotalByHost(t *testing.T) {
	const window = 4096
	ended := make(chan *gobtl.Peer, 64)
	cfg := gobtl.Config{
		Streams: conn.Config{WindowBytes: window, TotalBytes: 16 * window},
		OnPeer: func(p *gobtl.Peer, ev btl.Event, _ error) {
			if ev != btl.EventConnected {
				ended <- p
			}
		},
	}
	server, good, _ := peerOfOtherHost(t, cfg)
	fill := func(p *gobtl.Peer, streams int) (err error) {
		for range streams {
			c, e := p.OpenStream(t.Context())
			if e == nil {
				_, e = c.Write(make([]byte, window))
			}
			err = errors.Join(err, e)
		}
		return err
	}
	must(t, fill(good, 4))
	for range 8 {
		_ = fill(dial(t, open(t, gobtl.Config{}), server.Address()), 3) // fails if the server ends it
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the server ends no connection")
	}
	must(t, fill(good, 1))
}

// peerOfOtherHost returns a node, and a node of another host with its Peer for the first node.
func peerOfOtherHost(
	t *testing.T, cfg gobtl.Config,
) (server *gobtl.Node, other *gobtl.Peer, node *gobtl.Node) {
	t.Helper()
	server = listen(t, cfg, "127.0.0.1:0")
	peers := make(chan *gobtl.Peer, 1) // of the node of the other host, which the server dials
	node = listen(t, gobtl.Config{OnPeer: func(p *gobtl.Peer, ev btl.Event, _ error) {
		if ev == btl.EventConnected {
			peers <- p
		}
	}}, "127.0.0.2:0")
	dial(t, server, node.Address())
	return server, <-peers, node
}
