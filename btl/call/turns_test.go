package call

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// Of the calls of a stream, at most one of each number waits, and at most a window of numbers.
// Another call is refused at once. The end of a turn wakes only the next call.
func TestTurnsBounded(t *testing.T) {
	var turns turns
	var waits [streamWindow]chan struct{}
	for i := range waits {
		seq := uint32(len(waits) - 1 - i)
		turn, err := turns.enter(seq)
		if err != nil {
			t.Fatal(err)
		}
		waits[seq] = turn
	}
	for _, seq := range []uint32{0, 3, streamWindow, 1 << 31, 1<<32 - 1} {
		if _, err := turns.enter(seq); !errors.Is(err, errStreamHead) {
			t.Errorf("another call with number %d: %v", seq, err)
		}
	}
	for seq := range waits {
		woken := 0
		for i, turn := range waits {
			if woken += len(turn); len(turn) > 0 {
				<-turn
				if i != seq {
					t.Errorf("call %d is woken at the turn of %d", i, seq)
				}
			}
		}
		if woken != 1 {
			t.Errorf("%d calls are woken at the turn of %d", woken, seq)
		}
		turns.pass()
	}
	if turn, err := turns.enter(streamWindow); err != nil || len(turn) != 1 {
		t.Errorf("after all turns: %v, %d", err, len(turn))
	}
}

// A peer that sends the same push again, or a push far ahead, gets an error, and the calls do not
// wait.
func TestWrongPushes(t *testing.T) {
	net := mem.New(mem.Config{})
	nodes, runs, names := [2]*Node{}, [2]*runner.Runner{}, [2][]byte{}
	for i := range nodes {
		infos, err := net.Provider().GetInfo(fabric.Hints{})
		if err != nil {
			t.Fatal(err)
		}
		sizes, err := btl.Config{}.DomainConfig(infos[0])
		if err != nil {
			t.Fatal(err)
		}
		d, err := net.Open(sizes)
		if err != nil {
			t.Fatal(err)
		}
		m, err := btl.Open(d, btl.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if nodes[i], err = New(m, Config{Tag: 1}); err != nil {
			t.Fatal(err)
		}
		names[i] = m.Name()
		runs[i] = nodes[i].Start(runner.Config{}, nil)
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := errors.Join(nodes[i].Close(ctx), runs[i].Close(ctx)); err != nil {
				t.Error(err)
			}
		}()
	}
	nodes[0].HandleStream(1, func(ctx context.Context, _ *btl.Endpoint, _ io.Reader, _ io.Writer,
	) error {
		<-ctx.Done()
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ep, err := runs[1].Connect(ctx, names[0])
	if err != nil {
		t.Fatal(err)
	}
	say := func(ctx context.Context, op streamOp, seq uint32) error {
		_, err := nodes[1].Call(ctx, ep, 1, streamHead{op: op, seq: seq, id: 1}.put(nil))
		return err
	}
	if err := say(ctx, streamOpen, 0); err != nil {
		t.Fatal(err)
	}
	first := make(chan error, 1)
	go func() { first <- say(ctx, streamPush, 0) }() // waits for the handler
	for key := (served{nodes[0].onlyPeer(), 1}); ; time.Sleep(time.Millisecond) {
		s := nodes[0].streams.find(key)
		s.pushes.mu.Lock()
		there := s.pushes.calls[0] != nil
		s.pushes.mu.Unlock()
		if there {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the first push has not arrived")
		}
	}
	for _, seq := range []uint32{0, streamWindow, 1 << 20} {
		var remote RemoteError
		if err := say(ctx, streamPush, seq); !errors.As(err, &remote) {
			t.Errorf("push %d: %v, want a RemoteError", seq, err)
		}
	}
	if err := say(ctx, streamEnd, 0); err != nil {
		t.Error(err)
	}
	<-first
}

// onlyPeer returns the only peer with a stream.
func (n *Node) onlyPeer() *btl.Endpoint {
	n.streams.mu.Lock()
	defer n.streams.mu.Unlock()
	for ep := range n.streams.open {
		return ep
	}
	return nil
}
