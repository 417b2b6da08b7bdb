package call_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/runner"
	"gobtl/fabric/mem"
)

// Close keeps to its context though a handler does not look at its own; the caller learns that
// there is no answer, and the handler may return whenever it likes.
func TestCloseLeavesHandlers(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	entered, leave := make(chan struct{}), make(chan struct{})
	server.Handle(1, func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
		close(entered)
		<-leave
		return []byte("late"), nil
	})
	ended := make(chan error, 1)
	go func() {
		_, err := client.Call(t.Context(), peer, 1, nil)
		ended <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := server.Node.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close while a handler runs: %v", err)
	}
	close(leave)
	if err := <-ended; err == nil {
		t.Error("the late answer of a closed Node has arrived")
	}
	if err := server.Node.Close(t.Context()); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// Close in a handler of the Node, of any kind, says that it cannot wait there, and closes nothing.
// The Node of the client, which runs no handler, can be closed there.
func TestCloseInHandler(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	refused := func() error {
		if err := server.Node.Close(ctx); !errors.Is(err, runner.ErrInHandler) {
			return fmt.Errorf("Close: %w", err)
		}
		return nil
	}
	server.Handle(1, func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
		return nil, refused()
	})
	server.HandleInline(2, func(_ *btl.Endpoint, _, answer []byte) ([]byte, error) {
		return answer, refused()
	})
	server.HandleStream(3, func(context.Context, *btl.Endpoint, io.Reader, io.Writer) error {
		return refused()
	})
	server.Handle(4, func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
		return nil, client.Node.Close(ctx)
	})
	for _, method := range []uint16{1, 2, 1} {
		if _, err := client.Call(ctx, peer, method, nil); err != nil {
			t.Errorf("method %d: %v", method, err)
		}
	}
	if err := client.CallStream(ctx, peer, 3, nil, nil); err != nil {
		t.Errorf("a stream: %v", err)
	}
	if _, err := client.Call(ctx, peer, 4, nil); err != nil {
		t.Errorf("another Node: %v", err)
	}
}

// A server learns of a cancelled call though there was no room to tell it at once.
func TestCancelWithoutRoom(t *testing.T) {
	net := mem.New(mem.Config{})
	client := openWith(t, net, call.Config{}, btl.Config{FragmentsMax: 16})
	server := open(t, net, call.Config{})
	peer, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	entered, left := make(chan struct{}), make(chan struct{})
	server.Handle(1, func(ctx context.Context, _ *btl.Endpoint, _ []byte) ([]byte, error) {
		close(entered)
		<-ctx.Done()
		close(left)
		return nil, ctx.Err()
	})
	server.HandleInline(2, func(_ *btl.Endpoint, _, a []byte) ([]byte, error) { return a, nil })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := client.Call(ctx, peer, 1, nil)
		ended <- err
	}()
	<-entered
	net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Drop })
	others, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() { _, _ = client.Call(others, peer, 2, make([]byte, 1400)) })
	}
	// Until there is no room.
	for full := false; !full; time.Sleep(time.Millisecond) {
		if err := client.run.Do(t.Context(), func(*btl.Module) error {
			f, err := peer.Alloc(tag, 0)
			if full = errors.Is(err, btl.ErrAgain); full || err != nil {
				return nil
			}
			return peer.Free(f)
		}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	net.SetFilter(nil)
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Error("the handler of a call that was cancelled is not told")
	}
	stop()
	all.Wait()
}
