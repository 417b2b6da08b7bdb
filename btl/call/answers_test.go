package call_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
)

// Slow calls of one peer lock out nobody else.
func TestSlowPeerLeavesRoom(t *testing.T) {
	net := mem.New(mem.Config{})
	server := open(t, net, call.Config{Concurrent: 3, Total: 2})
	slow, other := open(t, net, call.Config{}), open(t, net, call.Config{})
	register(server)
	entered := make(chan struct{}, 4)
	const methodEntered = 20
	server.Handle(methodEntered, func(ctx context.Context, _ *btl.Endpoint, _ []byte) ([]byte, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	dial := func(s *side) *btl.Endpoint {
		peer, err := s.run.Connect(t.Context(), server.name)
		if err != nil {
			t.Fatal(err)
		}
		return peer
	}
	fromSlow, fromOther := dial(slow), dial(other)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	ask := func(s *side, peer *btl.Endpoint) {
		all.Go(func() {
			if _, err := s.Call(ctx, peer, methodEntered, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a slow call: %v", err)
			}
		})
		<-entered
	}
	ask(slow, fromSlow)
	ask(slow, fromSlow)
	if _, err := slow.Call(t.Context(), fromSlow, methodEcho, nil); !errors.Is(err, call.ErrBusy) {
		t.Errorf("beyond the share of one peer: %v", err)
	}
	for range 20 { // one at a time, though all of Total is taken
		if a, err := other.Call(t.Context(), fromOther, methodEcho, []byte("x")); err != nil ||
			string(a) != "x" {
			t.Fatalf("another peer: %q, %v", a, err)
		}
	}
	ask(other, fromOther)
	ask(other, fromOther)
	if _, err := other.Call(t.Context(), fromOther, methodEcho, nil); !errors.Is(err, call.ErrBusy) {
		t.Errorf("a third call beyond the limit of all: %v", err)
	}
}

// An answer that is larger than a message is told by an error, whoever gives it.
func TestAnswerTooLarge(t *testing.T) {
	const messageBytesMax = 100_000
	net := mem.New(mem.Config{})
	server := open(t, net, call.Config{})
	client := openWith(t, net, call.Config{}, btl.Config{FragmentBytesMax: messageBytesMax})
	peer, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	tooLarge := make([]byte, messageBytesMax)
	server.Handle(1, func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
		return tooLarge, nil
	})
	server.HandleInline(2, func(_ *btl.Endpoint, _, a []byte) ([]byte, error) {
		return append(a, tooLarge...), nil
	})
	for method := range uint16(3) {
		if method == 0 {
			continue
		}
		if _, err := client.Call(t.Context(), peer, method, nil); !errors.Is(err, call.ErrAnswerSize) {
			t.Errorf("method %d: %v", method, err)
		}
	}
	if _, err := client.Call(t.Context(), peer, 1, tooLarge); !errors.Is(err, btl.ErrTooLarge) {
		t.Errorf("a request that is too large: %v", err)
	}
}

// A server with room for few answers at once gives each caller its answer, or says why not.
func TestEachCallIsAnswered(t *testing.T) {
	const callers, bodyBytes = 300, 20_000
	net := mem.New(mem.Config{})
	client := open(t, net, call.Config{})
	server := openWith(t, net, call.Config{Concurrent: 1}, btl.Config{FragmentsMax: 16})
	peer, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte{7}, bodyBytes)
	server.HandleInline(1, func(_ *btl.Endpoint, _, a []byte) ([]byte, error) {
		return append(a, body...), nil
	})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			a, err := client.Call(t.Context(), peer, 1, nil)
			if !errors.Is(err, call.ErrAnswerRoom) && (err != nil || !bytes.Equal(a, body)) {
				t.Errorf("inline: %d bytes, %v", len(a), err)
			}
		})
		all.Go(func() {
			_, err := client.Call(t.Context(), peer, methodNone, nil)
			if !errors.Is(err, call.ErrMethod) && !errors.Is(err, call.ErrAnswerRoom) {
				t.Errorf("no such method: %v", err)
			}
		})
	}
	all.Wait()
}

// A Node that closes tells the callers of the handlers that it ends.
func TestCloseAnswers(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	entered := make(chan struct{})
	server.Handle(1, func(ctx context.Context, _ *btl.Endpoint, _ []byte) ([]byte, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ended := make(chan error, 1)
	go func() {
		_, err := client.Call(t.Context(), peer, 1, nil)
		ended <- err
	}()
	<-entered
	server.HandleInline(2, func(_ *btl.Endpoint, _, a []byte) ([]byte, error) { return a, nil })
	if err := server.Node.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, call.ErrClosing) {
		t.Errorf("a call whose server's Node has closed: %v", err)
	}
	for method := uint16(1); method <= 2; method++ {
		if _, err := client.Call(t.Context(), peer, method, nil); !errors.Is(err, call.ErrBusy) {
			t.Errorf("a call of method %d that came afterwards: %v", method, err)
		}
	}
}

// A call of a peer that has no Node ends, though it has no deadline.
func TestNoNode(t *testing.T) {
	net := mem.New(mem.Config{})
	client, server := open(t, net, call.Config{}), open(t, net, call.Config{Tag: tag + 1})
	peer, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	for _, bytes := range []int{0, 10, 20_000, 200_000} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := client.Call(ctx, peer, 1, make([]byte, bytes))
		if cancel(); !errors.Is(err, btl.ErrNoHandler) {
			t.Errorf("a request of %d bytes: %v", bytes, err)
		}
	}
}

// TestInlineRoom: a large inline answer is written where the one before was, and no memory is made
// for it; but not where a very large one was, for which none is kept.
func TestInlineRoom(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	const large, veryLarge = 1 << 20, 3 << 20
	var rooms []int
	server.HandleInline(2, func(_ *btl.Endpoint, q, a []byte) ([]byte, error) {
		rooms = append(rooms, cap(a))
		return append(a, q...), nil
	})
	for _, size := range []int{large, large, veryLarge, 1} {
		if a, err := client.Call(t.Context(), peer, 2, make([]byte, size)); len(a) != size || err != nil {
			t.Fatalf("%d bytes, %v; want %d", len(a), err, size)
		}
	}
	if rooms[1] < large || rooms[3] >= veryLarge {
		t.Errorf("rooms of %d bytes for the answers", rooms)
	}
}

// TestInlineForeignMemory: what an inline handler has returned is its own: the next answer is not
// written there, nor is there less room for that after one that has failed.
func TestInlineForeignMemory(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	own := bytes.Repeat([]byte("own"), 1<<10)
	want := bytes.Clone(own)
	rooms := 0
	server.HandleInline(1, func(*btl.Endpoint, []byte, []byte) ([]byte, error) { return own, nil })
	server.HandleInline(2, func(_ *btl.Endpoint, q, a []byte) ([]byte, error) {
		rooms = cap(a)
		return append(a, q...), nil
	})
	server.HandleInline(3, func(*btl.Endpoint, []byte, []byte) ([]byte, error) {
		return nil, errors.New("none")
	})
	const small, large = 1 << 10, 1 << 20
	for i, method := range []uint16{1, 2, 2, 3, 2} {
		size := small
		if i == 2 {
			size = large
		}
		_, err := client.Call(t.Context(), peer, method, make([]byte, size))
		if err != nil && method != 3 {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(own, want) {
		t.Error("the next answer was written into the memory of the one before")
	}
	if rooms < large {
		t.Errorf("room of %d bytes after an answer that has failed", rooms)
	}
}
