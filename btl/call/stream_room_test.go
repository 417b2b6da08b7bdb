package call_test

import (
	"context"
	"encoding/binary"
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

// Streams of one peer leave room for one of another, and for no second one: that is told when it
// opens, and over when they are.
func TestStreamTotal(t *testing.T) {
	cfg := call.Config{Concurrent: 64, Total: 40}
	net := mem.New(mem.Config{})
	server := open(t, net, cfg)
	goOn := stall(server)
	one, other := open(t, net, cfg), open(t, net, cfg)
	var all sync.WaitGroup
	stream := func(client *side, peer *btl.Endpoint) {
		begun, ended := make(chan struct{}), make(chan struct{})
		all.Go(func() {
			defer close(ended)
			err := client.CallStream(t.Context(), peer, 1, readerFunc(func([]byte) (int, error) {
				close(begun)
				return 0, io.EOF
			}), nil)
			if err != nil {
				t.Error(err)
			}
		})
		select {
		case <-begun:
		case <-ended:
		}
	}
	from, to := dial(t, one, server), dial(t, other, server)
	stream(one, from)
	stream(one, from)
	busyAtOpen(t, one, from)
	stream(other, to)
	busyAtOpen(t, other, to)
	close(goOn)
	all.Wait()
	err := call.ErrBusy
	for errors.Is(err, call.ErrBusy) { // the other's are only just over
		err = other.CallStream(t.Context(), to, 1, nil, nil)
	}
	if err != nil {
		t.Error(err)
	}
}

func dial(t *testing.T, client, server *side) *btl.Endpoint {
	t.Helper()
	peer, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	return peer
}

// openRaw opens a stream of which nothing is pushed or pulled.
func openRaw(ctx context.Context, client *side, peer *btl.Endpoint, id uint64) error {
	request := make([]byte, 16)
	request[0] = 1
	binary.LittleEndian.PutUint64(request[8:], id)
	_, err := client.Call(ctx, peer, 1, request)
	return err
}

// What is kept for the streams of an endpoint is given back when that ends, though no call of a
// stream waits: another peer has as many at once.
func TestStreamsEndWithTheirPeer(t *testing.T) {
	const each = 7 // of Total, without the eighth
	cfg := call.Config{Concurrent: 128, Total: 128}
	net := mem.New(mem.Config{})
	server := open(t, net, cfg)
	var inside atomic.Int32
	server.HandleStream(1, func(ctx context.Context, _ *btl.Endpoint, _ io.Reader, _ io.Writer) error {
		inside.Add(1)
		defer inside.Add(-1)
		<-ctx.Done()
		return nil
	})
	client := open(t, net, cfg)
	for round := range 3 {
		peer := dial(t, client, server)
		for id := range uint64(each) {
			if err := openRaw(t.Context(), client, peer, id); err != nil {
				t.Fatalf("round %d, stream %d: %v", round, id, err)
			}
		}
		err := client.run.Do(t.Context(), func(*btl.Module) error { peer.Abort(); return nil })
		if err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(10 * time.Second); inside.Load() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("round %d: %d streams of an endpoint that has ended go on", round, inside.Load())
			}
		}
		time.Sleep(10 * time.Millisecond) // until what was kept for the last one is given back
	}
}

// Five hosts open as many streams as the limits allow, and use none of them. The calls of another
// host are answered nevertheless, and each of four further hosts can open one stream. The server
// has room for these four streams because all streams of the five hosts except the first of each
// host count against seven eighths of Total.
func TestIdleStreamsKeepNobodyOut(t *testing.T) {
	cfg := call.Config{Concurrent: 256, Total: 256}
	net := mem.New(mem.Config{})
	server := open(t, net, cfg)
	stall(server)
	server.Handle(2, func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
		time.Sleep(time.Millisecond)
		return nil, nil
	})
	for range 5 {
		idle := open(t, net, cfg)
		peer := dial(t, idle, server)
		for id := uint64(0); ; id++ {
			if openRaw(t.Context(), idle, peer, id) != nil {
				break
			}
		}
	}
	caller := open(t, net, cfg)
	peer := dial(t, caller, server)
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			if _, err := caller.Call(t.Context(), peer, 2, nil); err != nil {
				t.Errorf("a call: %v", err)
			}
		})
	}
	calls.Wait()
	for i := range 4 {
		further := open(t, net, cfg)
		if err := openRaw(t.Context(), further, dial(t, further, server), 0); err != nil {
			t.Errorf("the stream of host %d beside idle streams: %v", i+1, err)
		}
	}
}
