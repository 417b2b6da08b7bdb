package stranger

import (
	"context"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/reliability"
)

// TestAsk has each side ask for the acknowledgement of what it has sent. The other one would keep
// it back until the packet comes again, which takes 100 ms: once in some tries it takes less.
func TestAsk(t *testing.T) {
	const delay = 900 * time.Millisecond
	r := realSide(t, btl.Config{
		Rules: reliability.Rules{AckDelay: delay, ResendTimeout: 5 * time.Second},
	})
	h := stranger(t, options{features: featSack | featAsk, ackAfter: delay})
	h.do(func() { h.handlers[tagKeep] = func(*conn, []byte) { h.kept++ } })
	c := h.to(t, r)
	best := time.Hour
	for try := 0; try < 20 && best > 80*time.Millisecond; try++ {
		begin := time.Now()
		h.do(func() { c.send(tagKeep, text(1, 10)) })
		eventually(t, "the acknowledgement", func() (all bool) {
			h.do(func() {
				if len(c.queue) == 0 && c.una != c.next {
					c.askAck()
				}
				all = c.una == c.next && len(c.queue) == 0
			})
			return all
		})
		best = min(best, time.Since(begin))
	}
	if best > 80*time.Millisecond {
		t.Errorf("asked for, it took %v", best)
	}
	before := 0
	h.do(func() { before = c.askedAcks })
	ctx := context.Background()
	check(t, r.run.SendBuffered(ctx, r.endpoint(), tagKeep, text(2, 10)))
	check(t, r.run.Flush(ctx, r.endpoint()))
	h.do(func() {
		if c.askedAcks == before {
			t.Error("a Flush has asked for nothing")
		}
	})
}
