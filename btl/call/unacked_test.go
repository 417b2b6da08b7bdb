package call_test

import (
	"context"
	"encoding/binary"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

// dropChunks makes the network drop all packets of messages that are larger than a packet, so that
// these messages are never acknowledged.
func dropChunks(net *mem.Network) {
	net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err == nil && h.Kind == frag.KindChunk {
			return mem.Drop
		}
		return mem.Deliver
	})
}

// A peer that acknowledges no answer makes the server hold no more bytes of answers than
// AnswerBytes allows. The memory is free when the peer has gone.
func TestUnacknowledgedAnswers(t *testing.T) {
	const requests, answerBytes, bound, margin = 256, 200 << 10, 1 << 20, 15 << 20
	patient := btl.Config{PeerTimeout: time.Minute} // the test may run on a slow machine
	for name, inline := range map[string]bool{"handler": false, "inline": true} {
		t.Run(name, func(t *testing.T) {
			net := mem.New(mem.Config{})
			server := openWith(t, net, call.Config{AnswerBytes: bound}, patient)
			var ran atomic.Int64
			server.Handle(1, func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
				defer ran.Add(1)
				return make([]byte, answerBytes), nil
			})
			if inline {
				server.HandleInline(1, func(_ *btl.Endpoint, _, a []byte) ([]byte, error) {
					ran.Add(1)
					return append(a, make([]byte, answerBytes)...), nil
				})
			}
			dropChunks(net)
			before := int64(heapBytes())
			t.Run("client", func(t *testing.T) {
				client := openWith(t, net, call.Config{}, patient)
				peer := dial(t, client, server)
				ctx, cancel := context.WithCancel(t.Context())
				var calls sync.WaitGroup
				defer calls.Wait()
				defer cancel()
				stands := 0
				for i := int64(0); i < requests && stands < 500; i++ {
					calls.Go(func() { _, _ = client.Call(ctx, peer, 1, nil) })
					for stands = 0; ran.Load() <= i && stands < 500; stands++ {
						time.Sleep(time.Millisecond) // at the limit, no further handler runs
					}
				}
				held := int64(heapBytes()) - before
				if held > bound+margin || ran.Load() < bound/answerBytes {
					t.Errorf("%d KiB are held after %d answers, AnswerBytes is %d KiB", held>>10,
						ran.Load(), bound>>10)
				}
			})
			await(t, "the memory to be free", func() bool {
				return int64(heapBytes())-before < bound+margin
			})
		})
	}
}

// A client that makes one call at a time gets answers that are larger than AnswerBytes, although
// each acknowledgement arrives later than the next call.
func TestAnswersAboveAnswerBytes(t *testing.T) {
	const answerBytes = 300_000
	net := mem.New(mem.Config{})
	server := open(t, net, call.Config{AnswerBytes: 200_000})
	client := open(t, net, call.Config{})
	server.Handle(1, func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
		return make([]byte, answerBytes), nil
	})
	server.HandleInline(2, func(_ *btl.Endpoint, _, a []byte) ([]byte, error) {
		return append(a, make([]byte, answerBytes)...), nil
	})
	peer := dial(t, client, server)
	for i := range 300 {
		a, err := client.Call(t.Context(), peer, uint16(1+i%2), nil)
		if err != nil || len(a) != answerBytes {
			t.Fatalf("call %d: %d bytes, %v", i, len(a), err)
		}
	}
}

// A client that pulls chunks of a stream and acknowledges none makes the server hold a bounded
// number of them.
func TestUnacknowledgedChunks(t *testing.T) {
	const pulls, margin = 400, 14 << 20
	patient := btl.Config{PeerTimeout: time.Minute}
	net := mem.New(mem.Config{})
	server := openWith(t, net, call.Config{AnswerBytes: 1 << 20}, patient)
	client := openWith(t, net, call.Config{}, patient)
	var written atomic.Int64
	begun := make(chan struct{})
	server.HandleStream(1, func(_ context.Context, _ *btl.Endpoint, _ io.Reader, w io.Writer) error {
		close(begun)
		for {
			if _, err := w.Write(make([]byte, chunk)); err != nil {
				return err
			}
			written.Add(1)
		}
	})
	peer := dial(t, client, server)
	dropChunks(net)
	before := int64(heapBytes())
	ask := func(id uint64, op byte, seq uint32) {
		msg := make([]byte, 32)
		binary.LittleEndian.PutUint64(msg, id)
		msg[12], msg[14], msg[16] = 1, 1, op
		binary.LittleEndian.PutUint32(msg[20:], seq)
		msg[24] = 77 // the id of the stream
		if err := client.run.Send(t.Context(), peer, tag, msg); err != nil {
			t.Fatal(err)
		}
	}
	const open, pull, end = 1, 3, 4
	ask(1<<40, open, 0)
	<-begun
	stands := 0
	for seq := int64(0); seq < pulls && stands < 1000; seq++ {
		ask(1<<40+1+uint64(seq), pull, uint32(seq))
		for stands = 0; written.Load() < seq-window/2 && stands < 1000; stands++ {
			time.Sleep(time.Millisecond)
		}
	}
	if held := int64(heapBytes()) - before; held > 2*window*chunk+margin {
		t.Errorf("%d KiB are held after %d chunks", held>>10, written.Load())
	}
	net.SetFilter(nil)
	ask(1<<41, end, 0)
}
