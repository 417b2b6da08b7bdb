package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// A region is withdrawn whose answer waits behind something larger, each with a flush behind it:
// the flush of the answer waits for what stands before it, and comes.
func TestFlushOfWithdrawnAnswer(t *testing.T) {
	l := newRemoteLab(t, mem.Config{MTUBytes: 1500}, smallConfig(), false)
	if err := l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		if len(pkt) > 1000 {
			return mem.Drop
		}
		return mem.Deliver
	})
	large, err := l.back.Prepare(1, filled(300_000, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.back.Send(l.now, large); err != nil {
		t.Fatal(err)
	}
	flushed := ""
	l.back.Flush(l.now, func(error) { flushed += "a" })
	get, err := l.ep.PrepareGet(make([]byte, 50_000), l.region.Handle(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.ep.Send(l.now, get); err != nil {
		t.Fatal(err)
	}
	q := &l.back.large.queue
	l.until("the answer waits", 20*time.Microsecond, time.Second, func() bool {
		return q.first == large && q.last != large
	})
	l.back.Flush(l.now, func(error) { flushed += "b" })
	l.region.Close()
	if err := l.mods[1].Check(); err != nil {
		t.Error(err)
	}
	l.net.SetFilter(nil)
	l.until("both are flushed", 100*time.Microsecond, 20*time.Second, func() bool {
		return flushed == "ab"
	})
}
