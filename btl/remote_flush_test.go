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
	l.until("the answer waits", 20*time.Microsecond, time.Second, func() bool {
		return queued(l.back) == 2 // behind the large one
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

// A flush asks for the ACK that it waits for: it is over in two trips and a few passes, however
// long the peer keeps ACKs back; so is a fence, and what waits behind it leaves then. A peer that
// has not said that it can be asked is not.
func TestFlushAsksForAck(t *testing.T) {
	for _, size := range []int{8, 1300, 100_000} {
		for _, may := range []bool{true, false} {
			cfg := smallConfig()
			cfg.Rules.AckDelay = 10 * time.Millisecond
			l := newRemoteLab(t, mem.Config{MTUBytes: 1500}, cfg, false)
			l.settle(time.Second)
			l.ep.c.ID.MayAskAck = may
			f, err := l.ep.PreparePut(filled(size, 3), l.region.Handle(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.ep.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
			flushed := false
			l.ep.Flush(l.now, func(error) { flushed = true })
			asked := func() uint64 { s := l.mods[0].Stats(); return s.Get(CntAsked) }
			for range 40 {
				l.step(20 * time.Microsecond)
			}
			// Of many packets every few are acknowledged at once, and here the last ones, too.
			if !flushed && (may || size == 100_000) || flushed && !may && size < 100_000 {
				t.Errorf("%d bytes, may be asked: %v: flushed %v", size, may, flushed)
			}
			l.until("flushed", 100*time.Microsecond, time.Second, func() bool { return flushed })
			if n := asked(); may != (n == 1) {
				t.Errorf("%d bytes, may be asked: %v: asked %d times", size, may, n)
			}
			sendOrFail(t, l.ep, 1, []byte("before"))
			l.ep.Fence(l.now)
			sendOrFail(t, l.ep, 1, []byte("behind"))
			for range 40 {
				l.step(20 * time.Microsecond)
			}
			if l.ep.c.Flushes.Fenced() == may {
				t.Errorf("%d bytes, may be asked: %v: the fence holds: %v", size, may, l.ep.c.Flushes.Fenced())
			}
		}
	}
}

// With nothing in flight a flush asks for nothing, and an ACK that asks is no packet for a peer
// that has not agreed to it.
func TestFlushAsksForNothing(t *testing.T) {
	l := newRemoteLab(t, mem.Config{MTUBytes: 1500}, smallConfig(), false)
	l.settle(time.Second)
	l.rest()
	l.ep.Flush(l.now, nil)
	l.rest()
	if s := l.mods[0].Stats(); s.Get(CntAsked) != 0 {
		t.Errorf("asked %d times", s.Get(CntAsked))
	}
	sendOrFail(t, l.ep, 1, []byte("in flight"))
	l.back.c.ID.MayAskAck = false
	l.ep.Flush(l.now, nil)
	l.rest()
	if s := l.mods[1].Stats(); s.Get(CntDropMalformed) != 1 {
		t.Errorf("%d packets dropped as none", s.Get(CntDropMalformed))
	}
}
