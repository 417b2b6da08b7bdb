package call_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
)

// stall has a method for streams that reads nothing until it may.
func stall(server *side) (goOn chan struct{}) {
	goOn = make(chan struct{})
	server.HandleStream(1, func(ctx context.Context, _ *btl.Endpoint, r io.Reader, w io.Writer) error {
		select {
		case <-goOn:
		case <-ctx.Done():
			return ctx.Err()
		}
		_, err := io.Copy(w, r)
		return err
	})
	return goOn
}

// Several peers, each with as many streams as one may have: some are refused when they open, none
// in its midst.
func TestStreamsOfManyPeers(t *testing.T) {
	const peers, each, size = 12, 2, 2 << 20
	cfg := call.Config{Concurrent: 32}
	net := mem.New(mem.Config{})
	server := open(t, net, cfg)
	goOn := stall(server)
	var all sync.WaitGroup
	var well, midst, refused atomic.Int64
	for range peers {
		client := open(t, net, cfg)
		peer, err := client.run.Connect(t.Context(), server.name)
		if err != nil {
			t.Fatal(err)
		}
		for range each {
			all.Go(func() {
				from := &counted{Reader: io.LimitReader(endless{}, size)}
				err := client.CallStream(t.Context(), peer, 1, from, nil)
				switch {
				case err == nil:
					well.Add(1)
				case errors.Is(err, call.ErrBusy) && from.bytes.Load() == 0:
					refused.Add(1)
				default:
					midst.Add(1)
				}
			})
		}
	}
	time.Sleep(time.Second)
	close(goOn)
	all.Wait()
	if well.Load() == 0 || midst.Load() > 0 {
		t.Errorf("%d of %d streams went on, %d were refused, %d ended in their midst", well.Load(),
			peers*each, refused.Load(), midst.Load())
	}
}

// busyAtOpen calls a stream for which there is no room, of which nothing may be read.
func busyAtOpen(t *testing.T, client *side, peer *btl.Endpoint) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	from := &counted{Reader: io.LimitReader(endless{}, 2<<20)}
	err := client.CallStream(ctx, peer, 1, from, nil)
	if !errors.Is(err, call.ErrBusy) || from.bytes.Load() > 0 {
		t.Errorf("%v, %d bytes were read", err, from.bytes.Load())
	}
}

// A stream beside many calls of the same peer is refused when it opens.
func TestStreamBesideCalls(t *testing.T) {
	client, server, peer := two(t, call.Config{Concurrent: 32})
	goOn := stall(server)
	server.Handle(2, func(ctx context.Context, _ *btl.Endpoint, _ []byte) ([]byte, error) {
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return nil, nil
	})
	var all sync.WaitGroup
	for range 25 {
		all.Go(func() { _, _ = client.Call(t.Context(), peer, 2, nil) })
	}
	time.Sleep(200 * time.Millisecond)
	busyAtOpen(t, client, peer)
	close(goOn)
	all.Wait()
}

// Streams of one peer leave no room for one of another: that is told when it opens, and over when
// they are.
func TestStreamTotal(t *testing.T) {
	cfg := call.Config{Concurrent: 32, Total: 40}
	net := mem.New(mem.Config{})
	server := open(t, net, cfg)
	goOn := stall(server)
	var all sync.WaitGroup
	var other *side
	var peer *btl.Endpoint
	var begun atomic.Int32
	for i := range 2 {
		client := open(t, net, cfg)
		to, err := client.run.Connect(t.Context(), server.name)
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			other, peer = client, to
			break
		}
		for range 2 {
			all.Go(func() {
				err := client.CallStream(t.Context(), to, 1, readerFunc(func([]byte) (int, error) {
					begun.Add(1)
					return 0, io.EOF
				}), nil)
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	for begun.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	busyAtOpen(t, other, peer)
	close(goOn)
	all.Wait()
	err := call.ErrBusy
	for errors.Is(err, call.ErrBusy) { // the other's are only just over
		err = other.CallStream(t.Context(), peer, 1, nil, nil)
	}
	if err != nil {
		t.Error(err)
	}
}
