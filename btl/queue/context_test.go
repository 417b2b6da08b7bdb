package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/queue"
	"gobtl/fabric/mem"
)

// A call with a nil context is refused, and the Queue goes on.
func TestNilContext(t *testing.T) {
	net := mem.New(mem.Config{})
	a, b := open(t, net, queue.Config{}), open(t, net, queue.Config{})
	peer := a.connect(t, b)
	var none context.Context
	_, err := b.Take(none, nil)
	for what, err := range map[string]error{
		"Send": a.Send(none, peer, nil), "Take": err, "Close": a.Queue.Close(none),
	} {
		if !errors.Is(err, btl.ErrContext) {
			t.Errorf("%s: %v, want ErrContext", what, err)
		}
	}
	if err := a.Send(t.Context(), peer, nil); err != nil {
		t.Error(err)
	}
	if msg, err := b.Take(t.Context(), nil); err != nil || len(msg.Data) != 0 {
		t.Errorf("%+v, %v", msg, err)
	}
}

// Close ends with its context, though something that the Queue has under way does not end.
func TestCloseEndsWithContext(t *testing.T) {
	net := mem.New(mem.Config{})
	a, b := open(t, net, queue.Config{}), open(t, net, queue.Config{})
	a.connect(t, b)
	end := a.Work()
	defer end()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- a.Queue.Close(ctx) }()
	select {
	case err := <-closed:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Close waits on after its context has ended")
	}
}
