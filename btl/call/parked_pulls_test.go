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

// chunk is the size of a full chunk of a stream, and window is the number of the chunks that the
// server sends without an acknowledgement.
const (
	chunk  = 128 << 10
	window = 8
)

// soon reports whether a condition becomes true within ten seconds.
func soon(ready func() bool) bool {
	for range 10_000 {
		if ready() {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// A client opens one stream after the other, pulls two windows of chunks, acknowledges none, and
// ends the stream. When the answers of the ended streams have reached AnswerBytes, the next stream
// is refused.
func TestPullsOfEndedStreams(t *testing.T) {
	const streams, answerBytes, margin = 16, 31 << 20, 14 << 20
	patient := btl.Config{PeerTimeout: time.Minute}
	net := mem.New(mem.Config{})
	server := openWith(t, net, call.Config{AnswerBytes: answerBytes}, patient)
	client := openWith(t, net, call.Config{}, patient)
	var written, ended atomic.Int64
	begun := make(chan struct{}, streams+1)
	server.HandleStream(1, func(_ context.Context, _ *btl.Endpoint, _ io.Reader, w io.Writer) error {
		defer ended.Add(1)
		begun <- struct{}{}
		for {
			if _, err := w.Write(make([]byte, chunk)); err != nil {
				return err
			}
			written.Add(1)
		}
	})
	peer := dial(t, client, server)
	dropChunks(net)
	defer net.SetFilter(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	before, id := int64(heapBytes()), uint64(1)<<40
	ask := func(stream uint64, op byte, seq uint32) {
		id++
		msg := make([]byte, 32)
		binary.LittleEndian.PutUint64(msg, id)
		msg[12], msg[14], msg[16] = 1, 1, op
		binary.LittleEndian.PutUint32(msg[20:], seq)
		binary.LittleEndian.PutUint64(msg[24:], stream)
		if err := client.run.Send(ctx, peer, tag, msg); err != nil {
			t.Fatal(err)
		}
	}
	const pull, end = 3, 4
	for stream := uint64(1); stream <= streams; stream++ {
		result := make(chan error, 1)
		go func() { result <- openRaw(ctx, client, peer, stream) }()
		select {
		case <-begun: // the answer may wait behind the chunks
		case err := <-result:
			if err != nil {
				t.Fatalf("stream %d: %v", stream, err)
			}
			<-begun
		}
		for seq := range uint32(2 * window) {
			ask(stream, pull, seq)
			if !soon(func() bool { return written.Load() > 2*window*int64(stream-1)+int64(seq) }) {
				t.Fatalf("%d chunks of %d streams are written", written.Load(), stream)
			}
			time.Sleep(time.Millisecond) // until the transport has the chunk
		}
		ask(stream, end, 0)
		if !soon(func() bool { return ended.Load() == int64(stream) }) {
			t.Fatal("a stream does not end")
		}
	}
	held := int64(heapBytes()) - before
	if held > answerBytes+2*window*chunk+margin || held < answerBytes/2 {
		t.Errorf("%d MiB are held after %d chunks of %d ended streams, AnswerBytes is %d MiB", held>>20,
			written.Load(), streams, answerBytes>>20)
	}
	// The refusal of the next stream may wait behind the chunks.
	last := time.AfterFunc(time.Second, func() { net.SetFilter(nil) })
	defer last.Stop()
	if err := openRaw(ctx, client, peer, streams+1); !errors.Is(err, call.ErrBusy) {
		t.Fatalf("the next stream: %v, want ErrBusy", err)
	}
}

// The unacknowledged answers of a stream that has just ended do not keep the next streams of a
// client out, although Total has room for only six streams.
func TestStreamsInSuccession(t *testing.T) {
	const workers, each, size = 2, 30, 1 << 20
	client, server, peer := two(t, call.Config{Concurrent: 64, Total: 96})
	server.HandleStream(1, func(_ context.Context, _ *btl.Endpoint, _ io.Reader, w io.Writer) error {
		_, err := io.CopyN(w, endless{}, size)
		return err
	})
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range each {
				to := &counted{Writer: io.Discard}
				err := client.CallStream(t.Context(), peer, 1, nil, to)
				if err != nil || to.bytes.Load() != size {
					t.Errorf("stream %d: %d bytes, %v", i, to.bytes.Load(), err)
					return
				}
			}
		})
	}
	all.Wait()
}
