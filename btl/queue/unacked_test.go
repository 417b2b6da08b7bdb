package queue_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl/queue"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

// A peer that allows any number of bytes and acknowledges none makes the sender hold no more than
// its own Bytes: Send waits. The waiting Send ends when the peer acknowledges again.
func TestQueueUnacknowledged(t *testing.T) {
	const window, message, messages = 4 << 20, 1 << 20, 64
	net := mem.New(mem.Config{})
	taker := open(t, net, queue.Config{Bytes: 1 << 40})
	sender := open(t, net, queue.Config{Bytes: window})
	var drops atomic.Bool
	drops.Store(true)
	net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err == nil && h.Kind == frag.KindChunk && drops.Load() {
			return mem.Drop
		}
		return mem.Deliver
	})
	peer := sender.connect(t, taker)
	var sent atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		for sent.Load() < messages {
			if err := sender.Send(ctx, peer, make([]byte, message)); err != nil {
				ended <- err
				return
			}
			sent.Add(1)
		}
		ended <- nil
	}()
	const most = window / (message + 64)
	eventually(t, "the first messages", func() bool { return sent.Load() >= most })
	for range 200 { // a Send that does not wait would end soon
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	if n := sent.Load(); n > most {
		t.Errorf("%d messages of 1 MiB were accepted and not acknowledged, want %d", n, most)
	}
	drops.Store(false)
	if err := <-ended; err != nil {
		t.Errorf("when the peer acknowledges again: %v after %d messages", err, sent.Load())
	}
}

// A message that is larger than the sender's own Bytes is sent when no other is under way.
func TestQueueLargerThanOwnBytes(t *testing.T) {
	const bytes = 100_000
	net := mem.New(mem.Config{})
	taker, sender := open(t, net, queue.Config{}), open(t, net, queue.Config{Bytes: 1024})
	peer := sender.connect(t, taker)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := range 20 {
		if err := sender.Send(ctx, peer, make([]byte, bytes)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}
