package btl

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// A small put with its notice, a get of few bytes, and its answer, are handled before the
// book-keeping of their packets: the notice is received fast, the answer leaves before the request
// is acknowledged, and the pass that brings it is over when who asked has been told.
func TestRemotePrompt(t *testing.T) {
	l := newRemoteLab(t, mem.Config{MTUBytes: 1500}, smallConfig(), false)
	l.settle(time.Second)
	fast := func(i int) uint64 { s := l.mods[i].Stats(); return s.Get(CntFastReceives) }
	l.rest()
	before := fast(1)
	if _, err := l.do(l.ep.PreparePutNotice(filled(8, 1), l.region.Handle(), 16, noticeTag,
		[]byte("here"))); err != nil {
		t.Fatal(err)
	}
	if got := fast(1) - before; got != 1 || len(l.notices) != 1 || l.notices[0] != "here" {
		t.Errorf("%d received fast, notices %q", got, l.notices)
	}
	if string(l.mem[16:24]) != string(filled(8, 1)) {
		t.Errorf("the put has written %x", l.mem[16:24])
	}

	l.rest()
	into, early, ended := make([]byte, 8), false, false
	owner := l.mods[1].Stats()
	acks := owner.Get(CntSentAck)
	f, err := l.ep.PrepareGet(into, l.region.Handle(), 16)
	if err != nil {
		t.Fatal(err)
	}
	f.OnDone = func(_ *Fragment, err error) {
		if ended = true; err != nil {
			t.Error(err)
		}
	}
	if _, err := l.ep.Send(l.now, f); err != nil {
		t.Fatal(err)
	}
	answered := false
	l.until("the get ends", 5*time.Microsecond, time.Second, func() bool {
		early = l.mods[0].fastLast
		s := l.mods[1].Stats()
		answered = answered || l.mods[1].rx.Deferred.Pending && s.Get(CntSentAck) == acks &&
			l.mods[1].endpoints()[0].c.Snd.InFlight() == 1
		return ended
	})
	if n := flying(l.ep); !answered || !l.mods[0].rx.Deferred.Pending || n != 1 {
		t.Errorf("answered first: %v; %v that the get ended first, %d packets unacknowledged",
			answered, l.mods[0].rx.Deferred.Pending, n)
	}
	if d := l.mods[0].Deadline(); d > l.now {
		t.Errorf("the rest of the pass is due at %d, now is %d", d, l.now)
	}
	if !early || string(into) != string(filled(8, 1)) {
		t.Errorf("the pass ended early: %v; the get has brought %x", early, into)
	}
}

// The last chunk of the answer to a get comes alone, and is booked before the get ends. The pass
// ends early all the same, and says that the rest of its work is due at once.
func TestRemotePromptChunk(t *testing.T) {
	l := newRemoteLab(t, mem.Config{MTUBytes: 1500, NoLanding: true}, smallConfig(), false)
	l.settle(time.Second)
	l.rest()
	chunks := 0
	l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindChunk {
			if chunks++; chunks > 1 {
				return mem.Hold
			}
		}
		return mem.Deliver
	})
	copy(l.mem, filled(2000, 1))
	into, ended := make([]byte, 2000), false
	f, err := l.ep.PrepareGet(into, l.region.Handle(), 0)
	if err != nil {
		t.Fatal(err)
	}
	f.OnDone = func(_ *Fragment, err error) {
		if ended = true; err != nil {
			t.Error(err)
		}
	}
	if _, err := l.ep.Send(l.now, f); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		l.step(5 * time.Microsecond)
	}
	if chunks < 2 || ended {
		t.Fatalf("%d chunks sent; the get ended without the last one: %t", chunks, ended)
	}
	l.net.SetFilter(deliverAll)
	l.net.Release()
	l.until("the get ends", 5*time.Microsecond, time.Second, func() bool { return ended })
	if m := l.mods[0]; !m.fastLast || m.rx.Deferred.Pending || !bytes.Equal(into, l.mem[:2000]) {
		t.Fatalf("the pass ended early: %t; a packet waits to be booked: %t", m.fastLast,
			m.rx.Deferred.Pending)
	}
	if d := l.mods[0].Deadline(); d > l.now {
		t.Errorf("the rest of the pass is due at %d, now is %d", d, l.now)
	}
}

// A get that comes when its owner has said goodbye is not answered: nothing may follow that.
func TestGetBehindBye(t *testing.T) {
	l := newRemoteLab(t, mem.Config{MTUBytes: 1500}, smallConfig(), false)
	l.settle(time.Second)
	l.rest()
	f, err := l.ep.PrepareGet(make([]byte, 8), l.region.Handle(), 0)
	if err != nil {
		t.Fatal(err)
	}
	told := errPending
	f.OnDone = func(_ *Fragment, err error) { told = err }
	if _, err := l.ep.Send(l.now, f); err != nil {
		t.Fatal(err)
	}
	l.back.Close(l.now)
	l.until("the get ends", 100*time.Microsecond, time.Second, func() bool {
		return !errors.Is(told, errPending)
	})
	if !errors.Is(told, ErrPeerClosed) {
		t.Errorf("the get ended with %v", told)
	}
}
