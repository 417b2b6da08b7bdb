package queue_test

import (
	"context"
	"errors"
	"testing"

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
