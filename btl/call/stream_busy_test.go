package call_test

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl/call"
)

// Of many streams of one peer, all of which stand still, some are refused, before anything of them
// is read; of the others none is, later.
func TestStreamBusyAtOpen(t *testing.T) {
	const many, size = 100, 2 << 20
	client, server, peer := two(t, call.Config{})
	goOn := stall(server)
	var all sync.WaitGroup
	var well, still, refused atomic.Int64
	for range many {
		all.Go(func() {
			from := &counted{Reader: io.LimitReader(endless{}, size)}
			err := client.CallStream(t.Context(), peer, 1, from, nil)
			switch {
			case err == nil:
				well.Add(1)
			case !errors.Is(err, call.ErrBusy) || from.bytes.Load() > 0:
				t.Errorf("ended in its midst: %v, %d bytes are read", err, from.bytes.Load())
				still.Add(1)
			default:
				refused.Add(1)
			}
		})
	}
	for refused.Load()+still.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(goOn)
	all.Wait()
	if refused.Load() == 0 || well.Load() < many/2 {
		t.Errorf("%d of %d streams went on, %d were refused", well.Load(), many, refused.Load())
	}
}
