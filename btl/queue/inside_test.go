package queue_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/queue"
	"gobtl/btl/runner"
	"gobtl/fabric/mem"
)

// In a callback, Close and a Take that would wait return an error at once, as all waiting methods
// do. The callback does not block its module, and the Queue can be used afterwards.
func TestNoWaitInCallback(t *testing.T) {
	net := mem.New(mem.Config{})
	s, other := open(t, net, queue.Config{}), open(t, net, queue.Config{})
	ep := s.connect(t, other)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for name, wait := range map[string]func() error{
		"Take of any peer": func() error { _, err := s.Take(ctx, nil); return err },
		"Take of a peer":   func() error { _, err := s.Take(ctx, ep); return err },
		"Close":            func() error { return s.Queue.Close(ctx) },
	} {
		err := s.run.Do(t.Context(), func(*btl.Module) error { return wait() })
		if !errors.Is(err, runner.ErrInHandler) {
			t.Errorf("%s in a callback: %v, want %v", name, err, runner.ErrInHandler)
		}
	}
	if n := s.Takers(); n != 0 {
		t.Errorf("%d calls of Take still wait", n)
	}
	if err := other.Send(t.Context(), other.connect(t, s), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if msg, err := s.Take(t.Context(), nil); string(msg.Data) != "x" || err != nil {
		t.Errorf("%q, %v", msg.Data, err)
	}
}

// takeAll takes all messages in a callback, and returns their number.
func (s *side) takeAll(t *testing.T) (taken int) {
	t.Helper()
	err := s.run.Do(t.Context(), func(*btl.Module) error {
		for ; ; taken++ {
			if _, err := s.Take(t.Context(), nil); err != nil {
				return err
			}
		}
	})
	if !errors.Is(err, runner.ErrInHandler) {
		t.Fatal(err)
	}
	return taken
}

// A sender goes on when its messages are taken in callbacks.
func TestTakeInCallbackTells(t *testing.T) {
	const bytes, window, messages = 64, 1024, 100
	net := mem.New(mem.Config{})
	receiver, sender := open(t, net, queue.Config{Bytes: window}), open(t, net, queue.Config{})
	to := sender.connect(t, receiver)
	ctx, stop := context.WithCancel(t.Context())
	var sent atomic.Int64
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { _ = sender.flood(ctx, to, bytes, &sent) })
	taken := 0
	eventually(t, "messages that are taken in callbacks", func() bool {
		taken += receiver.takeAll(t)
		return taken >= messages
	})
}

// However many messages a callback takes, at most one goroutine waits to tell their sender.
func TestTakeInCallbackGoroutines(t *testing.T) {
	const window, most = 64 << 10, 50
	net := mem.New(mem.Config{})
	receiver, sender := open(t, net, queue.Config{Bytes: window}), open(t, net, queue.Config{})
	to := sender.connect(t, receiver)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	const messages = window / 64
	for range messages {
		if err := sender.Send(ctx, to, nil); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all messages to arrive", func() bool {
		live, _ := receiver.Total()
		return live == window
	})
	began, further := 0, 0
	err := receiver.run.Do(t.Context(), func(*btl.Module) error {
		began = runtime.NumGoroutine()
		for range messages {
			if _, err := receiver.Take(t.Context(), nil); err != nil {
				return err
			}
		}
		further = runtime.NumGoroutine() - began
		return nil
	})
	if err != nil || further > most {
		t.Errorf("%d goroutines more after %d messages, %v", further, messages, err)
	}
	if err := sender.Send(ctx, to, nil); err != nil { // the window was full
		t.Error(err)
	}
}
