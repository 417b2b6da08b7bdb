package call_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
)

// A client that opens streams to a peer that acknowledges nothing, and abandons them before they
// are sent, keeps no goroutines for them.
func TestUnsentStreams(t *testing.T) {
	const streams = 50
	net := mem.New(mem.Config{})
	client := openWith(t, net, call.Config{},
		btl.Config{FragmentsMax: 16, PeerTimeout: time.Minute})
	server := open(t, net, call.Config{})
	peer := dial(t, client, server)
	net.SetFilter(func(_, _, _ []byte) mem.Verdict { return mem.Drop })
	defer net.SetFilter(nil)
	others, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range 200 {
		all.Go(func() { _, _ = client.Call(others, peer, 2, make([]byte, 1400)) })
	}
	await(t, "the send buffers to be full", func() (full bool) {
		_ = client.run.Do(t.Context(), func(*btl.Module) error {
			f, err := peer.Alloc(tag, 0)
			if full = errors.Is(err, btl.ErrAgain); err == nil {
				_ = peer.Free(f)
			}
			return nil
		})
		return full
	})
	before := runtime.NumGoroutine()
	for range streams {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		err := client.CallStream(ctx, peer, 1, nil, nil)
		if cancel(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an abandoned stream: %v", err)
		}
	}
	await(t, "goroutines of abandoned streams to end", func() bool {
		return runtime.NumGoroutine() < before+streams/2
	})
}
