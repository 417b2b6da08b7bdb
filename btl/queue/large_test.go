package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl/queue"
	"gobtl/fabric/mem"
)

// A message that fits the queue is sent when all before it was taken, however little that was: as
// large as the queue behind next to nothing, behind what is still to be taken, and when a Send
// before it, which waited too, was given up.
func TestQueueLargeBehindSmall(t *testing.T) {
	const window, largest = 64 << 10, 64<<10 - 64
	net := mem.New(mem.Config{})
	a, b := open(t, net, queue.Config{}), open(t, net, queue.Config{Bytes: window})
	to := a.connect(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, small := range []int{0, 1, window/4 - 65} {
		if err := a.Send(ctx, to, make([]byte, small)); err != nil {
			t.Fatal(err)
		}
		short, stop := context.WithTimeout(ctx, time.Millisecond)
		if err := a.Send(short, to, make([]byte, largest-1)); err == nil {
			t.Error("there was no room for it")
		}
		stop()
		var sent atomic.Bool
		ended := make(chan error, 1)
		go func() {
			err := a.Send(ctx, to, make([]byte, largest))
			sent.Store(true)
			ended <- err
		}()
		time.Sleep(time.Millisecond)
		if sent.Load() {
			t.Error("sent before all was taken")
		}
		for _, want := range []int{small, largest} {
			msg, err := b.Take(ctx, nil)
			if err != nil || len(msg.Data) != want {
				t.Fatalf("behind %d bytes: %d of %d bytes, %v", small, len(msg.Data), want, err)
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
