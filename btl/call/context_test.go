package call_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
)

// A call with a nil context is refused, and the Node goes on.
func TestNilContext(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	register(server)
	var none context.Context
	_, err := client.Call(none, peer, methodEcho, nil)
	for what, err := range map[string]error{
		"Call":       err,
		"CallStream": client.CallStream(none, peer, methodEcho, nil, nil),
		"Close":      client.Node.Close(none),
	} {
		if !errors.Is(err, btl.ErrContext) {
			t.Errorf("%s: %v, want ErrContext", what, err)
		}
	}
	if _, err := client.Call(t.Context(), peer, methodEcho, nil); err != nil {
		t.Error(err)
	}
}

// lateContext has a deadline, and does not say when it is over: its timer comes late.
type lateContext struct {
	context.Context

	at time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.at, true }

// waits begins to write when a channel is closed.
type waits struct{ until chan struct{} }

func (w waits) Write(p []byte) (int, error) {
	<-w.until
	time.Sleep(10 * time.Millisecond) // for the server to forget the stream
	return len(p), nil
}

// A stream that its server has ended in time, and forgotten, is late, though the caller's context
// does not know it yet.
func TestStreamLateTimer(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	ended := make(chan struct{})
	server.HandleStream(1, func(ctx context.Context, _ *btl.Endpoint, r io.Reader, w io.Writer) error {
		defer close(ended)
		_, err := io.Copy(io.Discard, r)
		for range 8 { // as many as are asked for before the first is taken
			if err == nil {
				_, err = w.Write([]byte("answer"))
			}
		}
		<-ctx.Done()
		return err
	})
	ctx := lateContext{t.Context(), time.Now().Add(200 * time.Millisecond)}
	err := client.CallStream(ctx, peer, 1, nil, waits{ended})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stream ended with %v", err)
	}
}
