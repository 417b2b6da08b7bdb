package call_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
)

// A server that acknowledges no request makes the client store no more bytes of requests than
// RequestBytes allows, although the client's calls end at their deadlines. A small call to another
// server, and a call after the server acknowledges again, succeed.
func TestUnacknowledgedRequests(t *testing.T) {
	const calls, requestBytes, bound, margin = 256, 256 << 10, 1 << 20, 15 << 20
	net := mem.New(mem.Config{})
	patient := btl.Config{PeerTimeout: time.Minute} // the test may run on a slow machine
	client := openWith(t, net, call.Config{RequestBytes: bound}, patient)
	server, other := openWith(t, net, call.Config{}, patient), openWith(t, net, call.Config{}, patient)
	for _, s := range []*side{server, other} {
		s.HandleInline(1, func(_ *btl.Endpoint, q, a []byte) ([]byte, error) {
			return append(a, byte(len(q)>>10)), nil
		})
	}
	peer, well := dial(t, client, server), dial(t, client, other)
	dropChunks(net)
	request := make([]byte, requestBytes)
	before := int64(heapBytes())
	for range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		_, err := client.Call(ctx, peer, 1, request)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v, want the context's error", err)
		}
	}
	if held := int64(heapBytes()) - before; held > bound+margin {
		t.Errorf("%d KiB are held after %d calls, RequestBytes is %d KiB", held>>10, calls, bound>>10)
	}
	if _, err := client.Call(t.Context(), well, 1, make([]byte, 512)); err != nil {
		t.Errorf("another server: %v", err)
	}
	net.SetFilter(nil)
	a, err := client.Call(t.Context(), peer, 1, make([]byte, 2*bound))
	if err != nil || len(a) != 1 {
		t.Errorf("afterwards: %d bytes, %v", len(a), err)
	}
}

// Calls whose requests together exceed RequestBytes of the client wait for each other, and all of
// them succeed.
func TestRequestsAboveRequestBytes(t *testing.T) {
	const callers, each, requestBytes = 16, 8, 700 << 10
	net := mem.New(mem.Config{})
	client, server := open(t, net, call.Config{RequestBytes: 1}), open(t, net, call.Config{})
	server.HandleInline(1, func(_ *btl.Endpoint, q, a []byte) ([]byte, error) {
		return append(a, q[:4]...), nil
	})
	peer := dial(t, client, server)
	ended := make(chan error, callers)
	for range callers {
		go func() {
			var err error
			for range each {
				_, e := client.Call(t.Context(), peer, 1, make([]byte, requestBytes))
				err = errors.Join(err, e)
			}
			ended <- err
		}()
	}
	for range callers {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
