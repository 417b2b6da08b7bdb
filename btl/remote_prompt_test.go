package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// A small put with its notice, and the answer to a get, are told before the book-keeping of their
// packets: the notice is received fast, and the pass that brings the answer is over when the owner
// has been told.
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
	l.until("the get ends", 5*time.Microsecond, time.Second, func() bool {
		early = l.mods[0].fastLast
		return ended
	})
	if d := l.mods[0].Deadline(); d > l.now {
		t.Errorf("the rest of the pass is due at %d, now is %d", d, l.now)
	}
	if !early || string(into) != string(filled(8, 1)) {
		t.Errorf("the pass ended early: %v; the get has brought %x", early, into)
	}
}
