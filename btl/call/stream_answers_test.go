package call_test

import (
	"context"
	"io"
	"sync"
	"testing"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
)

// The answers of a stream have room of their own: it ends well however few bytes of answers a peer
// may have, also beside others, and where the transport has hardly any memory.
func TestStreamsBesideFewAnswerBytes(t *testing.T) {
	const size = 2 << 20
	for _, tc := range []struct {
		name        string
		streams     int
		answerBytes int64
	}{{"one", 1, 1}, {"many", 32, 1 << 20}} {
		t.Run(tc.name, func(t *testing.T) {
			net := mem.New(mem.Config{})
			client := open(t, net, call.Config{})
			server := openWith(t, net, call.Config{AnswerBytes: tc.answerBytes},
				btl.Config{FragmentsMax: 16})
			peer := dial(t, client, server)
			server.HandleStream(1, func(_ context.Context, _ *btl.Endpoint, r io.Reader, w io.Writer) error {
				_, err := io.Copy(w, r)
				return err
			})
			var all sync.WaitGroup
			for range tc.streams {
				all.Go(func() {
					to := &counted{Writer: io.Discard}
					err := client.CallStream(t.Context(), peer, 1, io.LimitReader(endless{}, size), to)
					if err != nil || to.bytes.Load() != size {
						t.Errorf("%d bytes of %d, then %v", to.bytes.Load(), size, err)
					}
				})
			}
			all.Wait()
		})
	}
}
