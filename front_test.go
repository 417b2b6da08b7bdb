package gobtl_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"gobtl"
	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/queue"
)

// A peer that dials while Setup runs waits, and then finds the handlers that Setup has registered.
func TestSetupBeforePeers(t *testing.T) {
	client := open(t, gobtl.Config{})
	came, greeted := make(chan struct{}, 1), make(chan error, 1)
	server := listen(t, gobtl.Config{
		OnPeer: func(_ *gobtl.Peer, event btl.Event, _ error) {
			if event == btl.EventConnected {
				came <- struct{}{}
			}
		},
		Setup: func(n *gobtl.Node) error {
			go func() { greeted <- greet(t.Context(), client, n.Address()) }()
			bound := time.After(20 * time.Second)
			for asked := false; !asked; {
				select {
				case <-bound:
					return errors.New("no request of the client arrives")
				case <-time.After(time.Millisecond):
				}
				for _, s := range n.Stats() {
					asked = s.Get(btl.CntRecvHandshake) > 1
				}
			}
			select {
			case <-came: // as it would without a gate
				return errors.New("the client is connected before Setup has returned")
			case <-time.After(20 * time.Millisecond):
			}
			return n.Handle("greet", func(context.Context, *gobtl.Request) ([]byte, error) {
				return nil, nil
			})
		},
	}, "127.0.0.1:0")
	must(t, <-greeted)
	<-came
	if server.Address() == "" {
		t.Error("the Node has no address")
	}
}

// greet dials a Node, opens a stream, and calls the method "greet".
func greet(ctx context.Context, n *gobtl.Node, address string) error {
	peer, err := n.Dial(ctx, address)
	if err != nil {
		return err
	}
	c, err := peer.OpenStream(ctx)
	if err != nil {
		return err
	}
	_, err = peer.Call(ctx, "greet", nil)
	return errors.Join(err, c.Close())
}

// An error of Setup is that of Listen and of Open, which leave nothing behind.
func TestSetupFails(t *testing.T) {
	failed := errors.New("no handlers today")
	cfg := gobtl.Config{Setup: func(*gobtl.Node) error { return failed }}
	for name, begin := range map[string]func() (*gobtl.Node, error){
		"Listen": func() (*gobtl.Node, error) { return cfg.Listen("127.0.0.1:0") }, "Open": cfg.Open,
	} {
		if n, err := begin(); n != nil || !errors.Is(err, failed) {
			t.Errorf("%s: %v, %v", name, n, err)
		}
	}
}

// An error of a Peer's method says what was done, and at which peer.
func TestErrorsSayWhere(t *testing.T) {
	server := listen(t, gobtl.Config{
		Queue: queue.Config{Bytes: 1 << 16},
		Calls: call.Config{RequestBytes: 1000, MessageBytes: 1 << 18},
	}, "127.0.0.1:0")
	must(t, server.Handle("refuse", func(context.Context, *gobtl.Request) ([]byte, error) {
		return nil, errors.New("not today")
	}))
	must(t, server.Handle("long", func(context.Context, *gobtl.Request) ([]byte, error) {
		return make([]byte, 3000), nil
	}))
	brief := gobtl.Config{Transport: btl.Config{FragmentBytesMax: 2048}}
	peer := dial(t, open(t, gobtl.Config{}), server.Address())
	small := dial(t, open(t, brief), server.Address())
	ctx := t.Context()
	at := server.Address()
	callOf := func(p *gobtl.Peer, method string, bytes int) error {
		_, err := p.Call(ctx, method, make([]byte, bytes))
		return err
	}
	for _, c := range []struct {
		err  error
		is   error
		says []string
	}{
		{callOf(peer, "none", 0), call.ErrMethod, []string{`gobtl: call "none" of ` + at + ": "}},
		{callOf(peer, "refuse", 0), call.RemoteError("not today"), []string{`"refuse" of ` + at}},
		{
			callOf(peer, "refuse", 1001), call.ErrRequestSize,
			[]string{"1001 bytes", "at most 1000", "of the server (gobtl: Calls.RequestBytes)"},
		},
		{
			callOf(peer, "refuse", 1<<18+1000), call.ErrRequestSize,
			[]string{"263144 bytes", "of the server (gobtl: Calls.MessageBytes)", "67108864 by default"},
		},
		{
			callOf(small, "long", 0), call.ErrAnswerSize,
			[]string{"at most 2048", "gobtl: Transport.FragmentBytesMax"},
		},
		{
			callOf(small, "long", 3000), btl.ErrTooLarge,
			[]string{"at most 2048", "gobtl: Transport.FragmentBytesMax"},
		},
		{
			peer.Enqueue(ctx, make([]byte, 70000)), queue.ErrTooLarge,
			[]string{"enqueue to " + at, "70000 bytes", "of the receiver (gobtl: Queue.Bytes)"},
		},
		{peer.Send(ctx, 4, nil), btl.ErrNoHandler, []string{"gobtl: send to " + at + ": "}},
		{
			peer.Send(ctx, gobtl.TagMax+1, nil), gobtl.ErrTag,
			[]string{fmt.Sprintf("%d, at most %d", gobtl.TagMax+1, gobtl.TagMax)},
		},
	} {
		checkError(t, c.err, c.is, c.says...)
	}
	must(t, peer.Close(ctx))
	_, err := peer.OpenStream(ctx)
	checkError(t, err, btl.ErrClosed, "gobtl: open a stream to "+at)
	checkError(t, callOf(peer, "refuse", 0), btl.ErrClosed, at)
}

// checkError checks that an error is another error, has texts, and names no address twice.
func checkError(t *testing.T, err, is error, says ...string) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Errorf("%v is not %v", err, is)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q lacks %q", err, text)
		}
	}
	if strings.Count(err.Error(), "127.0.0.1:") > 1 {
		t.Errorf("%q names an address twice", err)
	}
}

// An address in a form that is nearly right: the error has the right form.
func TestAddressHints(t *testing.T) {
	memory := open(t, gobtl.Config{Provider: "shm"})
	client := open(t, gobtl.Config{
		Transport: btl.Config{HandshakeTimeout: 50 * time.Millisecond},
	})
	server := listen(t, gobtl.Config{}, "127.0.0.1:0")
	var port int
	_, err := fmt.Sscanf(server.Address(), "127.0.0.1:%d", &port)
	must(t, err)
	for _, c := range []struct {
		node    *gobtl.Node
		address string
		is      error
		says    string
	}{
		{client, "::1:4400", gobtl.ErrAddress, `write "[::1]:4400"`},
		{client, "http://server:4400/", gobtl.ErrAddress, `has no scheme: write "server:4400"`},
		{
			client, fmt.Sprint("127.0.0.1:", port+1), btl.ErrUnreachable,
			"dial the lower one; or the program there is stuck in a handler",
		},
		{memory, "127.0.0.1:4000", gobtl.ErrAddress, "Config.SharedMemory"},
	} {
		_, err := c.node.Dial(t.Context(), c.address)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Dial(%q): %v, want it to say %q", c.address, err, c.says)
		}
	}
	n, err := gobtl.Config{Provider: "shm"}.Listen("127.0.0.1:4000")
	if err == nil {
		closeNode(t, n)
	}
	checkError(t, err, gobtl.ErrAddress, "Config.SharedMemory")
}

// The methods of a Node that is nil or zero return an error, or nothing.
func TestNoNode(t *testing.T) {
	for name, n := range map[string]*gobtl.Node{"nil": nil, "zero": {}} {
		ctx := t.Context()
		for method, run := range map[string]func() error{
			"Dial":          func() error { _, err := n.Dial(ctx, "127.0.0.1:4000"); return err },
			"Handle":        func() error { return n.Handle("greet", nil) },
			"HandleMessage": func() error { return n.HandleMessage(1, nil) },
			"Accept":        func() error { _, err := n.Accept(); return err },
			"Listener":      func() error { _, err := n.Listener().Accept(); return err },
			"Take":          func() error { _, err := n.Take(ctx); return err },
			"Close":         func() error { return n.Close(ctx) },
		} {
			if err := run(); !errors.Is(err, gobtl.ErrNode) {
				t.Errorf("%s of a Node that is %s: %v", method, name, err)
			}
		}
		if n.Address() != "" || n.Links() != nil || len(n.Stats()) != 0 {
			t.Errorf("a Node that is %s has an address", name)
		}
	}
}

// The methods of a Peer that is nil or zero return an error, or nothing.
func TestNoPeer(t *testing.T) {
	for name, p := range map[string]*gobtl.Peer{"nil": nil, "zero": {}} {
		ctx := t.Context()
		for method, run := range map[string]func() error{
			"Call":       func() error { _, err := p.Call(ctx, "greet", nil); return err },
			"Send":       func() error { return p.Send(ctx, 1, nil) },
			"Enqueue":    func() error { return p.Enqueue(ctx, nil) },
			"OpenStream": func() error { _, err := p.OpenStream(ctx); return err },
			"Expose":     func() error { _, err := p.Expose(ctx, nil, 0); return err },
			"Put":        func() error { return p.Put(ctx, 0, 0, nil) },
			"Get":        func() error { return p.Get(ctx, 0, 0, nil) },
			"Close":      func() error { return p.Close(ctx) },
			"Err":        p.Err,
		} {
			if err := run(); !errors.Is(err, gobtl.ErrPeer) {
				t.Errorf("%s of a Peer that is %s: %v", method, name, err)
			}
		}
		if p.Address() != "" || p.String() != "" || p.Network() != "" || p.Link() != nil ||
			p.Endpoint() != nil {
			t.Errorf("a Peer that is %s has an address, a link or an endpoint", name)
		}
		select {
		case <-p.Done():
		default:
			t.Errorf("a Peer that is %s has not ended", name)
		}
	}
}

// The methods of a Region that is nil or zero return an error, or nothing.
func TestNoRegion(t *testing.T) {
	for name, r := range map[string]*gobtl.Region{"nil": nil, "zero": {}} {
		if err := r.Close(t.Context()); !errors.Is(err, gobtl.ErrRegion) || r.Handle() != 0 {
			t.Errorf("Close of a Region that is %s: %v, handle %d", name, err, r.Handle())
		}
	}
}

// A time without a unit is refused, and the error has units.
func TestTimesWithoutUnit(t *testing.T) {
	for _, c := range []struct {
		transport btl.Config
		says      string
	}{
		{btl.Config{KeepAlive: 20}, "Transport.KeepAlive is 20ns, must be 10ms to 1h0m0s"},
		{btl.Config{PeerTimeout: 5}, "Transport.PeerTimeout is 5ns, must be 10ms to 1h0m0s"},
		{btl.Config{CloseTimeout: 2 * time.Hour}, "Transport.CloseTimeout is 2h0m0s, must be 1ms"},
	} {
		n, err := gobtl.Config{Transport: c.transport}.Open()
		if err == nil {
			closeNode(t, n)
		}
		if !errors.Is(err, btl.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want it to say %q", err, c.says)
		}
	}
	open(t, gobtl.Config{Transport: btl.Config{KeepAlive: -1}}) // no keep-alives
}

// The log has an error only where there is one.
func TestLogWithoutError(t *testing.T) {
	var text lockedBuffer
	server := listen(t, gobtl.Config{Log: slog.New(slog.NewTextHandler(&text, nil))}, "127.0.0.1:0")
	client := open(t, gobtl.Config{})
	must(t, dial(t, client, server.Address()).Close(t.Context()))
	closeNode(t, server)
	log := text.String()
	if !strings.Contains(log, "peer connected") || strings.Contains(log, "<nil>") {
		t.Errorf("the log is\n%s", log)
	}
}
