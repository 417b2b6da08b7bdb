package queue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/queue"
	"gobtl/fabric/mem"
)

// counting is a context that counts the calls of Done. A Take calls Done each time it begins to
// wait.
type counting struct {
	context.Context
	waits *atomic.Int64
}

func (c counting) Done() <-chan struct{} {
	c.waits.Add(1)
	return c.Context.Done()
}

// A message of one peer does not wake the Takes that wait for other peers.
func TestMessageWakesNoOtherPeer(t *testing.T) {
	const idle, messages, waitsMost = 20, 300, 10
	net := mem.New(mem.Config{})
	server := open(t, net, queue.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var waits atomic.Int64
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range idle {
		ep, err := server.run.Connect(t.Context(), open(t, net, queue.Config{}).name)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			_, err := server.Take(counting{ctx, &waits}, ep)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a Take from an idle peer: %v", err)
			}
		})
	}
	eventually(t, "the Takes to wait", func() bool { return waits.Load() >= idle })
	active := open(t, net, queue.Config{})
	to := active.connect(t, server)
	from, err := server.run.Connect(t.Context(), active.name)
	if err != nil {
		t.Fatal(err)
	}
	for range messages {
		if err := active.Send(t.Context(), to, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Take(t.Context(), from); err != nil {
			t.Fatal(err)
		}
	}
	if n := waits.Load(); n > idle*waitsMost {
		t.Errorf("%d Takes from idle peers waited %d times beside %d messages", idle, n, messages)
	}
}

// Takes with and without a peer, some of which give up, take each message once, and no message
// stays while a Take waits.
func TestManyTakes(t *testing.T) {
	const peers, each = 4, 500
	net := mem.New(mem.Config{})
	server := open(t, net, queue.Config{Bytes: 64 << 10})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var left atomic.Int64
	left.Store(peers * each)
	var all sync.WaitGroup
	take := func(peer *btl.Endpoint, hasty bool) {
		for ctx.Err() == nil {
			ctx, stop := ctx, func() {}
			if hasty {
				ctx, stop = context.WithTimeout(ctx, 20*time.Microsecond)
			}
			_, err := server.Take(ctx, peer)
			stop()
			if err == nil && left.Add(-1) == 0 {
				cancel()
			}
		}
	}
	for range peers {
		s := open(t, net, queue.Config{})
		to := s.connect(t, server)
		from, err := server.run.Connect(t.Context(), s.name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			all.Go(func() { take([]*btl.Endpoint{from, nil}[i%2], i < 2) })
		}
		all.Go(func() {
			for range each {
				if err := s.Send(t.Context(), to, make([]byte, 100)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := left.Load(); n != 0 {
		t.Errorf("%d of %d messages are not taken", n, peers*each)
	}
	if held, gone := server.Total(); held != 0 || gone != 0 {
		t.Errorf("%d and %d bytes are left", held, gone)
	}
}

// The end of the Runner ends the Takes that wait, and later ones.
func TestTakeEndsWithRunner(t *testing.T) {
	net := mem.New(mem.Config{})
	s := open(t, net, queue.Config{})
	ep := s.connect(t, open(t, net, queue.Config{}))
	ended := make(chan error, 2)
	for _, peer := range []*btl.Endpoint{nil, ep} {
		go func() {
			_, err := s.Take(t.Context(), peer)
			ended <- err
		}()
	}
	eventually(t, "the Takes to wait", func() bool { return s.Takers() == 2 })
	if err := s.run.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, btl.ErrClosed) {
			t.Errorf("a Take that waited when the Runner ended: %v", err)
		}
	}
	if _, err := s.Take(t.Context(), nil); !errors.Is(err, btl.ErrClosed) {
		t.Errorf("a Take after the end of the Runner: %v", err)
	}
}
