package runner_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/conn"
	"gobtl/btl/queue"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// layered is a module with three layers on it.
type layered struct {
	calls  *call.Node
	conns  *conn.Node
	queue  *queue.Queue
	run    *runner.Runner
	module *btl.Module
	name   []byte
	events chan btl.Event
}

func openLayers(t *testing.T, net *mem.Network) *layered {
	t.Helper()
	infos, err := net.Provider().GetInfo(fabric.Hints{})
	must(t, err)
	sizes, err := btl.Config{}.DomainConfig(infos[0])
	must(t, err)
	domain, err := net.Open(sizes)
	must(t, err)
	m, err := btl.Open(domain, btl.Config{})
	must(t, err)
	l := &layered{module: m, name: m.Name(), events: make(chan btl.Event, 16)}
	l.calls, err = call.New(m, call.Config{Tag: 1})
	must(t, err)
	l.conns, err = conn.New(m, conn.Config{Tag: 2})
	must(t, err)
	l.queue, err = queue.New(m, queue.Config{Tag: 3})
	must(t, err)
	testNotStarted(t, l)
	event := func(_ *btl.Endpoint, ev btl.Event, _ error) { l.events <- ev }
	l.run = runner.New(m, runner.Config{}, event, l.calls.Layer(), l.conns.Layer(), l.queue.Layer())
	t.Cleanup(func() {
		ctx := context.Background()
		must(t, errors.Join(l.calls.Close(ctx), l.conns.Close(ctx), l.queue.Close(ctx), l.run.Close(ctx)))
	})
	return l
}

// testNotStarted checks that what waits for a Runner says that there is none.
func testNotStarted(t *testing.T, l *layered) {
	t.Helper()
	ctx, ep := t.Context(), new(btl.Endpoint)
	_, errCall := l.calls.Call(ctx, ep, 1, nil)
	errStream := l.calls.CallStream(ctx, ep, 1, nil, nil)
	_, errDial := l.conns.Dial(ctx, ep, "")
	_, errDialContext := l.conns.DialContext(ctx, "", "127.0.0.1:4000")
	_, errListen := l.conns.Listen("")
	errSend := l.queue.Send(ctx, ep, nil)
	_, errTake := l.queue.Take(ctx, nil)
	_, errStart := l.run.Start(ctx, ep, 1, nil)
	for what, err := range map[string]error{
		"Call": errCall, "CallStream": errStream, "Dial": errDial, "DialContext": errDialContext,
		"Listen": errListen, "Send": errSend, "Take": errTake,
		"Close of Conns": l.conns.Close(ctx), "Start": errStart, "Close": l.run.Close(ctx),
	} {
		if !errors.Is(err, runner.ErrNotStarted) {
			t.Errorf("%s before the start: %v", what, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Calls, Conns and a Queue share one module: each gets its messages, its room, and hears of the end
// of the peer.
func TestLayersShareAModule(t *testing.T) {
	net := mem.New(mem.Config{})
	a, b := openLayers(t, net), openLayers(t, net)
	b.calls.Handle(1, func(_ context.Context, _ *btl.Endpoint, req []byte) ([]byte, error) {
		return append([]byte("re: "), req...), nil
	})
	listener, err := b.conns.Listen("")
	must(t, err)
	go func() {
		if c, err := listener.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	ep, err := a.run.Connect(t.Context(), b.name)
	must(t, err)
	answer, err := a.calls.Call(t.Context(), ep, 1, []byte("hi"))
	if err != nil || string(answer) != "re: hi" {
		t.Fatalf("%q, %v", answer, err)
	}
	must(t, a.queue.Send(t.Context(), ep, []byte("later")))
	if msg, err := b.queue.Take(t.Context(), nil); err != nil || string(msg.Data) != "later" {
		t.Fatalf("%q, %v", msg.Data, err)
	}
	// More than there are buffers for: it goes on only because the Conn is told of room.
	c, err := a.conns.Dial(t.Context(), ep, "")
	must(t, err)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	go func() {
		_, _ = c.Write(sent)
		_ = c.CloseWrite()
	}()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes of %d, %v", len(got), len(sent), err)
	}
	// The end of the peer ends what waits in each layer.
	idle, err := a.conns.Dial(t.Context(), ep, "")
	if err == nil {
		defer func() { _ = idle.Close() }()
	}
	b.calls.Handle(2, func(ctx context.Context, _ *btl.Endpoint, _ []byte) ([]byte, error) {
		must(t, b.run.Do(context.Background(), func(*btl.Module) error { return nil }))
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ended := make(chan error, 2)
	go func() { _, err := a.calls.Call(context.Background(), ep, 2, nil); ended <- err }()
	go func() { _, err := idle.Read(make([]byte, 1)); ended <- err }()
	must(t, a.run.Do(t.Context(), func(*btl.Module) error { ep.Abort(); return nil }))
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("nothing is said of the end of the peer")
		}
	}
	if first := <-a.events; first != btl.EventConnected {
		t.Errorf("the first event is %v", first)
	}
}
