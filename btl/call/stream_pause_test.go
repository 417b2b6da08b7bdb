package call

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"gobtl/btl"
)

// A client that has received a window of chunks, and pauses before it asks for more, gets the rest
// of the answer. A stream of which the client makes no call ends.
func TestStreamLongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunks = 2 * streamWindow
		n, peer := idleNode(t)
		ep, ended := peer("host"), make(chan error, 2)
		write := func(ctx context.Context, _ *btl.Endpoint, _ io.Reader, w io.Writer) error {
			_, err := w.Write(make([]byte, chunks*streamChunk))
			ended <- err
			return err
		}
		call := func(op streamOp, id uint64, seq uint32) ([]byte, error) {
			request := streamHead{op: op, id: id, seq: seq}.put(nil)
			return n.serveStream(t.Context(), ep, 1, write, request)
		}
		for id := range uint64(2) {
			if _, err := call(streamOpen, id, 0); err != nil {
				t.Fatal(err)
			}
		}
		for seq := range uint32(chunks) {
			if seq == streamWindow {
				time.Sleep(100 * streamFirstMax)
			}
			if a, err := call(streamPull, 0, seq); err != nil || len(a) != streamAnswerBytes {
				t.Fatalf("chunk %d: %d bytes, %v", seq, len(a), err)
			}
		}
		if err := <-ended; !errors.Is(err, errStreamGone) {
			t.Errorf("the handler of the stream without calls: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the handler of the stream with a pause: %v", err)
		}
		if _, err := call(streamPull, 1, 0); !errors.Is(err, errStreamGone) {
			t.Errorf("a call of the ended stream: %v", err)
		}
		if a, err := call(streamPull, 0, chunks); err != nil || len(a) != 1 || a[0] != 1 {
			t.Errorf("the end of the answer: %x, %v", a, err)
		}
	})
}
