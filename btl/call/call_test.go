package call_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tag btl.Tag = 7

// side is one process of a test.
type side struct {
	*call.Node
	run  *runner.Runner
	name []byte
}

func open(t *testing.T, net *mem.Network, cfg call.Config) *side {
	t.Helper()
	return openWith(t, net, cfg, btl.Config{})
}

func openWith(t *testing.T, net *mem.Network, cfg call.Config, bc btl.Config) *side {
	t.Helper()
	infos, err := net.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := bc.DomainConfig(infos[0])
	if err != nil {
		t.Fatal(err)
	}
	domain, err := net.Open(sizes)
	if err != nil {
		t.Fatal(err)
	}
	m, err := btl.Open(domain, bc)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Tag == 0 {
		cfg.Tag = tag
	}
	n, err := call.New(m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &side{Node: n, name: m.Name()}
	s.run = n.Start(runner.Config{}, nil)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := errors.Join(s.Node.Close(ctx), s.run.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	return s
}

// two opens a client and a server, and connects them.
func two(t *testing.T, cfg call.Config) (client, server *side, peer *btl.Endpoint) {
	t.Helper()
	net := mem.New(mem.Config{})
	server, client = open(t, net, cfg), open(t, net, cfg)
	peer, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	return client, server, peer
}

const (
	methodEcho uint16 = iota
	methodEchoInline
	methodFail
	methodBlock
	methodNone = 1000
)

func register(s *side) (blocked chan error) {
	blocked = make(chan error, 100)
	s.Handle(methodEcho, func(_ context.Context, _ *btl.Endpoint, q []byte) ([]byte, error) {
		return q, nil
	})
	s.HandleInline(methodEchoInline, func(_ *btl.Endpoint, q, a []byte) ([]byte, error) {
		return append(a, q...), nil
	})
	s.Handle(methodFail, func(_ context.Context, _ *btl.Endpoint, q []byte) ([]byte, error) {
		return nil, fmt.Errorf("cannot %s", q)
	})
	s.Handle(methodBlock, func(ctx context.Context, _ *btl.Endpoint, _ []byte) ([]byte, error) {
		<-ctx.Done()
		blocked <- ctx.Err()
		return nil, ctx.Err()
	})
	return blocked
}

func TestCalls(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	register(server)
	seed := testenv.Seed(t, 1)
	var all sync.WaitGroup
	for c := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(c)))
			for i := range 60 {
				q := bytes.Repeat([]byte{byte(c), byte(i)}, rng.IntN(1<<rng.IntN(17)))
				a, err := client.Call(t.Context(), peer, methodEcho+uint16(i%2), q)
				if err != nil || !bytes.Equal(a, q) {
					t.Errorf("caller %d, call %d of %d bytes: %d bytes, %v", c, i, len(q), len(a), err)
				}
			}
		})
	}
	all.Wait()
}

func TestErrors(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	register(server)
	ctx := t.Context()
	var remote call.RemoteError
	if _, err := client.Call(ctx, peer, methodFail, []byte("fly")); !errors.As(err, &remote) ||
		!strings.HasSuffix(err.Error(), "cannot fly") {
		t.Errorf("a handler's error came as %v", err)
	}
	if _, err := client.Call(ctx, peer, methodNone, nil); !errors.Is(err, call.ErrMethod) {
		t.Errorf("a method without handler: %v", err)
	}
	if _, err := client.Call(ctx, nil, methodEcho, nil); !errors.Is(err, btl.ErrEndpoint) {
		t.Errorf("no endpoint: %v", err)
	}
	if _, err := call.New(nil, call.Config{Concurrent: -1}); !errors.Is(err, call.ErrConfig) {
		t.Errorf("a negative limit: %v", err)
	}
	if _, err := call.New(nil, call.Config{MessageBytes: 1000}); !errors.Is(err, call.ErrConfig) {
		t.Errorf("messages that a stream cannot use: %v", err)
	}
}

// A caller that gives up ends its handler's context; a deadline travels by itself.
func TestCancel(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	blocked := register(server)
	for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
		ctx, cancel := context.WithCancel(t.Context())
		if errors.Is(want, context.DeadlineExceeded) {
			ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
		} else {
			time.AfterFunc(20*time.Millisecond, cancel)
		}
		if _, err := client.Call(ctx, peer, methodBlock, nil); !errors.Is(err, want) {
			t.Errorf("the caller got %v, want %v", err, want)
		}
		cancel()
		select {
		case <-blocked: // by the cancel, or by the deadline, whichever came first
		case <-time.After(10 * time.Second):
			t.Fatalf("%v: the handler goes on", want)
		}
	}
	if _, err := client.Call(t.Context(), peer, methodEcho, nil); err != nil {
		t.Error(err)
	}
}

// TestBusy: a server takes no more than it is set to, and goes on when they have ended.
func TestBusy(t *testing.T) {
	client, server, peer := two(t, call.Config{Concurrent: 2})
	blocked := register(server)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	busy := make(chan error, 20)
	for range 5 {
		all.Go(func() {
			_, err := client.Call(ctx, peer, methodBlock, nil)
			busy <- err
		})
	}
	for range 3 {
		if err := <-busy; !errors.Is(err, call.ErrBusy) {
			t.Errorf("beyond the limit: %v", err)
		}
	}
	cancel()
	all.Wait()
	<-blocked
	<-blocked
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := client.Call(t.Context(), peer, methodEcho, nil); err == nil {
			break
		} else if !errors.Is(err, call.ErrBusy) || time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// TestPeerEnds: calls to a peer that closes end, and so do its handlers' contexts.
func TestPeerEnds(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	blocked := register(server)
	ended := make(chan error, 1)
	go func() {
		_, err := client.Call(t.Context(), peer, methodBlock, nil)
		ended <- err
	}()
	if _, err := client.Call(t.Context(), peer, methodEcho, nil); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond) // the other call is at its handler, or will be soon
	if err := client.run.Do(t.Context(), func(m *btl.Module) error {
		peer.Close(m.Now())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, btl.ErrClosed) {
		t.Errorf("the call ended with %v", err)
	}
	select {
	case <-blocked:
	case <-time.After(10 * time.Second):
		t.Error("the handler goes on although its caller's endpoint has ended")
	}
}

// TestNonsense: what is no message of this package changes nothing.
func TestNonsense(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	register(server)
	for _, msg := range [][]byte{
		nil, make([]byte, 15), make([]byte, 16),
		append(make([]byte, 14), 4, 0), append(make([]byte, 14), 1, 1),
		append(make([]byte, 14), 2, 0), append(make([]byte, 14), 3, 0),
	} {
		if err := client.run.Send(t.Context(), peer, tag, msg); err != nil {
			t.Fatal(err)
		}
	}
	a, err := client.Call(t.Context(), peer, methodEcho, []byte("still"))
	if string(a) != "still" || err != nil {
		t.Errorf("afterwards: %q, %v", a, err)
	}
}

// heapBytes is what is in use after a collection.
func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// Calls whose contexts have ended keep nothing.
func TestCallsAreForgotten(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	server.Handle(9, func(ctx context.Context, _ *btl.Endpoint, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	const calls, requestBytes = 1000, 16 << 10
	before := heapBytes()
	for range calls {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := client.Call(ctx, peer, 9, make([]byte, requestBytes))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v, want the context's error", err)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		grown := int64(heapBytes() - before)
		if grown < calls*requestBytes/4 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d calls keep %d KiB", calls, grown>>10)
		}
	}
}
