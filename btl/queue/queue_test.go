package queue_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gobtl/btl"
	"gobtl/btl/queue"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tag btl.Tag = 7

// side is one process of a test.
type side struct {
	*queue.Queue
	run  *runner.Runner
	name []byte
}

func open(t *testing.T, net *mem.Network, cfg queue.Config) *side {
	t.Helper()
	infos, err := net.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	var bc btl.Config
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
	cfg.Tag = tag
	q, err := queue.New(m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &side{Queue: q, name: m.Name()}
	s.run = q.Start(runner.Config{}, nil)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		// The Runner may have been closed already.
		if err := q.Close(ctx); err != nil && !errors.Is(err, btl.ErrClosed) {
			t.Error(err)
		}
		if err := s.run.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *side) connect(t *testing.T, to *side) *btl.Endpoint {
	t.Helper()
	ep, err := s.run.Connect(t.Context(), to.name)
	if err != nil {
		t.Fatal(err)
	}
	return ep
}

// flood sends messages, numbered, until one is not sent; it counts those that were.
func (s *side) flood(ctx context.Context, to *btl.Endpoint, bytes int, sent *atomic.Int64) error {
	for {
		msg := make([]byte, bytes)
		binary.LittleEndian.PutUint64(msg, uint64(sent.Load()))
		if err := s.Send(ctx, to, msg); err != nil {
			return err
		}
		sent.Add(1)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("waiting for %s", what)
		}
	}
}

// A peer whose queue is full stops, with no more there than it may; another one goes on as if it
// were the only one; when messages are taken, the first goes on, and none is lost or comes twice.
func TestQueueStopsOne(t *testing.T) {
	const bytes, window = 1000, 64 << 10
	net := mem.New(mem.Config{})
	receiver := open(t, net, queue.Config{Bytes: window})
	slow, quick := open(t, net, queue.Config{}), open(t, net, queue.Config{})
	toSlow, toQuick := slow.connect(t, receiver), quick.connect(t, receiver)
	ctx, stop := context.WithCancel(t.Context())
	var sent [2]atomic.Int64
	var all sync.WaitGroup
	all.Go(func() { _ = slow.flood(ctx, toSlow, bytes, &sent[0]) })
	const most = window / (bytes + 64)
	eventually(t, "the first queue to be full", func() bool { return sent[0].Load() == most })
	first, err := receiver.Take(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all.Go(func() { _ = quick.flood(ctx, toQuick, bytes, &sent[1]) })
	var other *btl.Endpoint
	seen := map[*btl.Endpoint]map[uint64]bool{
		first.Peer: {binary.LittleEndian.Uint64(first.Data): true},
	}
	take := func(peer *btl.Endpoint) *btl.Endpoint {
		msg, err := receiver.Take(t.Context(), peer)
		if err != nil {
			t.Fatal(err)
		}
		of := seen[msg.Peer]
		if of == nil {
			of = map[uint64]bool{}
			seen[msg.Peer] = of
		}
		n := binary.LittleEndian.Uint64(msg.Data)
		if of[n] || len(msg.Data) != bytes {
			t.Errorf("message %d comes twice, or with %d bytes", n, len(msg.Data))
		}
		of[n] = true
		return msg.Peer
	}
	taken := 1 // of the first peer
	for other == nil {
		if p := take(nil); p != first.Peer {
			other = p
		} else {
			taken++
		}
	}
	for range 20 * most {
		take(other)
	}
	if n := sent[0].Load(); n > int64(most+taken) {
		t.Errorf("%d messages were sent of which %d are taken, into a queue for %d", n, taken, most)
	}
	for range 20 * most {
		take(first.Peer)
	}
	stop()
	all.Wait()
	eventually(t, "all to be taken", func() bool {
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		for {
			msg, err := receiver.Take(short, nil)
			if err != nil {
				break
			}
			seen[msg.Peer][binary.LittleEndian.Uint64(msg.Data)] = true
		}
		return int64(len(seen[first.Peer])) >= sent[0].Load() &&
			int64(len(seen[other])) >= sent[1].Load()
	})
}

// Who waits for room ends with its context, having sent nothing; with Close; and with the endpoint.
func TestQueueEnds(t *testing.T) {
	net := mem.New(mem.Config{})
	receiver, sender := open(t, net, queue.Config{Bytes: 1024}), open(t, net, queue.Config{})
	to := sender.connect(t, receiver)
	if err := sender.Send(t.Context(), to, make([]byte, 1024)); !errors.Is(err, queue.ErrTooLarge) {
		t.Errorf("larger than the queue: %v", err)
	}
	if err := sender.Send(t.Context(), to, make([]byte, 960)); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Microsecond)
		err := sender.Send(ctx, to, make([]byte, 100))
		if cancel(); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("while the queue is full: %v", err)
		}
	}
	ended := make(chan error, 1)
	begin := func(to *btl.Endpoint) {
		begun := make(chan struct{})
		go func() {
			close(begun)
			ended <- sender.Send(t.Context(), to, make([]byte, 900))
		}()
		<-begun
		time.Sleep(time.Millisecond)
	}
	begin(to)
	if msg, err := receiver.Take(t.Context(), nil); err != nil || len(msg.Data) != 960 {
		t.Fatalf("%d bytes, %v", len(msg.Data), err)
	}
	if err := <-ended; err != nil {
		t.Errorf("when there is room: %v", err)
	}
	begin(to)
	msg, err := receiver.Take(t.Context(), nil)
	if err != nil || len(msg.Data) != 900 {
		t.Errorf("what was given up has come: %d bytes, %v", len(msg.Data), err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	begin(to) // the queue is full
	from := msg.Peer
	abort := func(*btl.Module) error { from.Abort(); return nil }
	if err := receiver.run.Do(t.Context(), abort); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a Send to an endpoint that has ended has its end")
	}
	if msg, err := receiver.Take(t.Context(), from); err != nil || len(msg.Data) != 900 {
		t.Errorf("what came before its endpoint ended: %d bytes, %v", len(msg.Data), err)
	}
	if _, err := receiver.Take(t.Context(), from); err == nil {
		t.Error("a Take from an endpoint that has ended waits")
	}
	to = sender.connect(t, receiver)
	if err := sender.Send(t.Context(), to, make([]byte, 900)); err != nil {
		t.Fatal(err)
	}
	if err := sender.run.Flush(t.Context(), to); err != nil { // it has come
		t.Fatal(err)
	}
	begin(to)
	if err := sender.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, queue.ErrClosed) {
		t.Errorf("when the Queue closes: %v", err)
	}
	if err := sender.Send(t.Context(), to, nil); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("after that: %v", err)
	}
	if err := receiver.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if msg, err := receiver.Take(t.Context(), nil); err != nil || len(msg.Data) != 900 {
		t.Errorf("what came before Close: %d bytes, %v", len(msg.Data), err)
	}
	if _, err := receiver.Take(t.Context(), nil); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A peer that sends more than it may loses its endpoint, and nobody else does.
func TestQueueHostile(t *testing.T) {
	net := mem.New(mem.Config{})
	receiver := open(t, net, queue.Config{Bytes: 4096})
	bad, good := open(t, net, queue.Config{}), open(t, net, queue.Config{})
	toBad, toGood := bad.connect(t, receiver), good.connect(t, receiver)
	for _, junk := range [][]byte{nil, {1}, {3, 7: 0}, {3, 15: 0}, {9, 7: 0}, {2, 1, 7: 0}} {
		if err := bad.run.Send(t.Context(), toBad, tag, junk); err != nil {
			t.Errorf("%x: %v", junk, err)
		}
	}
	data := make([]byte, 8+1000)
	data[0] = 1
	eventually(t, "the endpoint to end", func() bool {
		return bad.run.Send(t.Context(), toBad, tag, data) != nil
	})
	if err := good.Send(t.Context(), toGood, []byte("good")); err != nil {
		t.Error(err)
	}
	kept := 0
	for {
		msg, err := receiver.Take(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if string(msg.Data) == "good" {
			break
		}
		kept += len(msg.Data)
	}
	if kept == 0 || kept > 4096 {
		t.Errorf("%d bytes are kept of a peer that may have 4096", kept)
	}
	for _, cfg := range []queue.Config{{Bytes: 1}, {Bytes: 1 << 50}, {GoneBytes: -1}} {
		if _, err := queue.New(nil, cfg); !errors.Is(err, queue.ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
