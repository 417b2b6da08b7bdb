package call_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
)

// loser loses all packets that have some bytes in them, until it is to let them go.
type loser struct {
	mu   sync.Mutex
	of   []byte // nil: none
	lost chan struct{}
	once sync.Once
}

func (l *loser) filter(_, _, pkt []byte) mem.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil || !bytes.Contains(pkt, l.of) {
		return mem.Deliver
	}
	l.once.Do(func() { close(l.lost) })
	return mem.Drop
}

func (l *loser) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = nil
}

// overtaken opens two sides. Packets to the server that have some bytes in them are lost.
func overtaken(t *testing.T, bytes []byte) (client, server *side, peer *btl.Endpoint, l *loser) {
	t.Helper()
	net := mem.New(mem.Config{})
	server, client = open(t, net, call.Config{}), open(t, net, call.Config{})
	peer, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	l = &loser{of: bytes, lost: make(chan struct{})}
	net.SetFilter(l.filter)
	return client, server, peer, l
}

// cancelOvertaken begins a call whose request is lost, gives it up, and lets the request arrive
// when whatever the client has to say of it has had time to arrive before. It waits for the handler
// to end, if it has begun.
func cancelOvertaken(t *testing.T, l *loser, begun, ended chan struct{},
	begin func(context.Context) error,
) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- begin(ctx) }()
	<-l.lost
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was given up: %v", err)
	}
	time.Sleep(20 * time.Millisecond)
	l.letGo()
	<-begun
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the handler is not told that its caller has given up")
	}
}

// A cancel does not arrive before the request: the handler of one that is delayed ends.
func TestCancelDoesNotOvertake(t *testing.T) {
	for _, sizeBytes := range []int{16, 3000, 60000} {
		marker := []byte("sixteen bytes...")
		client, server, peer, l := overtaken(t, marker)
		begun, ended := make(chan struct{}), make(chan struct{})
		server.Handle(1, func(ctx context.Context, _ *btl.Endpoint, _ []byte) ([]byte, error) {
			close(begun)
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		})
		request := append(make([]byte, sizeBytes-len(marker)), marker...)
		cancelOvertaken(t, l, begun, ended, func(ctx context.Context) error {
			_, err := client.Call(ctx, peer, 1, request)
			return err
		})
		if _, err := client.Call(t.Context(), peer, 2, nil); !errors.Is(err, call.ErrMethod) {
			t.Errorf("the next call: %v", err)
		}
	}
}

// The end of a stream does not arrive before its opening, which would then hold its places for half
// a minute.
func TestStreamEndDoesNotOvertake(t *testing.T) {
	opening := []byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0} // the first stream's
	client, server, peer, l := overtaken(t, opening)
	begun, ended := make(chan struct{}), make(chan struct{})
	server.HandleStream(1, func(ctx context.Context, _ *btl.Endpoint, _ io.Reader, _ io.Writer) error {
		close(begun)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	cancelOvertaken(t, l, begun, ended, func(ctx context.Context) error {
		return client.CallStream(ctx, peer, 1, nil, nil)
	})
}

// The error of a handler that wraps that of a context of its own is told with its text: the
// caller's context has not ended.
func TestForeignContextErrors(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	for i, inner := range []error{context.DeadlineExceeded, context.Canceled} {
		err := fmt.Errorf("query of the accounts: %w", inner)
		want := call.RemoteError(err.Error())
		method := uint16(10 * i)
		server.Handle(method, func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
			return nil, err
		})
		server.HandleInline(method+1, func(*btl.Endpoint, []byte, []byte) ([]byte, error) {
			return nil, err
		})
		server.HandleStream(method+2,
			func(context.Context, *btl.Endpoint, io.Reader, io.Writer) error { return err })
		for m := method; m < method+2; m++ {
			if _, got := client.Call(t.Context(), peer, m, nil); !errors.Is(got, want) {
				t.Errorf("method %d: %v, want %v", m, got, want)
			}
		}
		if got := client.CallStream(t.Context(), peer, method+2, nil, nil); !errors.Is(got, want) {
			t.Errorf("stream: %v, want %v", got, want)
		}
	}
}
