package queue_test

import (
	"context"
	"errors"
	"testing"

	"gobtl/btl/queue"
	"gobtl/fabric/mem"
)

// A receiver that takes nothing holds at most TotalBytes of connected peers and GoneBytes of ended
// ones. A peer that holds little stays connected, and loses nothing.
func TestQueueTotal(t *testing.T) {
	const most, total, gone = 16 << 10, 64 << 10, 32 << 10
	net := mem.New(mem.Config{})
	receiver := open(t, net, queue.Config{Bytes: most, TotalBytes: total, GoneBytes: gone})
	good := open(t, net, queue.Config{})
	ep := good.connect(t, receiver)
	for range 3 {
		if err := good.Send(t.Context(), ep, []byte("good")); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		bad := open(t, net, queue.Config{})
		to := bad.connect(t, receiver)
		var err error
		for range 15 {
			err = errors.Join(err, bad.Send(t.Context(), to, make([]byte, 1<<10-64)))
		}
		_ = bad.run.Flush(t.Context(), to) // fails if the peer has ended the endpoint
		if live, held := receiver.Total(); live > total || held > gone {
			t.Fatalf("%d bytes of connected peers, %d of ended ones", live, held)
		}
	}
	if live, _ := receiver.Total(); live < total/2 {
		t.Errorf("only %d bytes are held", live)
	}
	if err := good.Send(t.Context(), ep, []byte("good")); err != nil {
		t.Errorf("the good peer: %v", err)
	}
	if err := good.run.Flush(t.Context(), ep); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	goods := 0
	for {
		msg, err := receiver.Take(ctx, nil)
		if err != nil {
			break
		}
		if string(msg.Data) == "good" {
			goods++
		}
	}
	if live, held := receiver.Total(); goods != 4 || live != 0 || held != 0 {
		t.Errorf("%d messages of the good peer; %d and %d bytes are left", goods, live, held)
	}
}
