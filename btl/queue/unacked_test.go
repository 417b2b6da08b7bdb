package queue_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
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

// Peers of one host that acknowledge nothing make the sender hold no more than its TotalBytes, and
// a small message for each of them. Meanwhile messages of all sizes go to another host. When the
// peers acknowledge again, all messages arrive.
func TestQueueUnacknowledgedByHost(t *testing.T) {
	const bytes, total, peers, message, messages = 256 << 10, 1 << 20, 12, 100_000, 6
	net := mem.New(mem.Config{})
	sender := open(t, net, queue.Config{Bytes: bytes, TotalBytes: total})
	var honestData string
	var drops atomic.Bool
	drops.Store(true)
	net.SetFilter(func(_, to, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err == nil && h.Kind == frag.KindChunk && drops.Load() &&
			string(to) != honestData {
			return mem.Drop
		}
		return mem.Deliver
	})
	good := open(t, net, queue.Config{})
	name, err := frag.ParseName(good.name)
	if err != nil {
		t.Fatal(err)
	}
	honestData = string(name.Data)
	var honest *btl.Endpoint
	sender.SetHosts(func(ep *btl.Endpoint) string {
		if ep == honest {
			return "honest"
		}
		return "silent"
	})
	honest = sender.connect(t, good)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var sent atomic.Int64
	var all sync.WaitGroup
	for range peers {
		peer := sender.connect(t, open(t, net, queue.Config{}))
		all.Go(func() {
			for range messages {
				if err := sender.Send(ctx, peer, make([]byte, message)); err != nil {
					t.Errorf("when the peer acknowledges again: %v", err)
					return
				}
				sent.Add(1)
			}
		})
	}
	unacked := func() (bytes int64) {
		if err := sender.run.Do(ctx, func(*btl.Module) error {
			bytes, _ = sender.Unacked()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	eventually(t, "the bound to be reached", func() bool { return unacked() >= total })
	for _, size := range []int{0, 1000, 30_000, 200_000, 1_000_000, 2_000_000} {
		if err := sender.Send(ctx, honest, make([]byte, size)); err != nil {
			t.Fatalf("%d bytes to another host: %v", size, err)
		}
		if _, err := good.Take(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := sent.Load(); n > total/message+1 {
		t.Errorf("%d messages of %d bytes were accepted and not acknowledged", n, message)
	}
	drops.Store(false)
	all.Wait()
	if n := sent.Load(); n != peers*messages {
		t.Errorf("%d messages were sent, want %d", n, peers*messages)
	}
}
