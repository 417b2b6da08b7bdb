package btl

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gobtl/btl/internal/pmtu"
	"gobtl/fabric/mem"
)

// What would leave at once waits for a fence like everything else: SendImmediate has no room until
// what was ahead of it is acknowledged, and a small message does not overtake that.
func TestFenceImmediate(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	large, small := 0, 0
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { large++ })
	l.mods[1].Handle(2, func(*Endpoint, Tag, []byte) {
		if small++; large == 0 {
			t.Error("a small message is here before what is ahead of its fence")
		}
	})
	a, _ := l.pair()
	sendOrFail(t, a, 1, make([]byte, 20_000))
	a.Fence(l.now)
	if err := a.SendImmediate(l.now, 2, []byte("at once")); !errors.Is(err, ErrAgain) {
		t.Errorf("behind a fence: %v, want ErrAgain", err)
	}
	sendOrFail(t, a, 2, []byte("in turn"))
	l.until("the small message", 20*time.Microsecond, 5*time.Second, func() bool { return small > 0 })
	if err := a.SendImmediate(l.now, 2, []byte("at once")); err != nil {
		t.Errorf("the fence is over: %v", err)
	}
	l.until("another one", 20*time.Microsecond, 5*time.Second, func() bool { return small > 1 })
}

// A message that fits a packet no more, because the path carries less, keeps its place before what
// is behind a later fence. A flush that waits for the message goes on to do so.
func TestFencePathLowered(t *testing.T) {
	l := newRemoteLab(t, mem.Config{MTUBytes: 1500}, smallConfig(), false)
	var order []string
	note := func(what string) { order = append(order, what) }
	for tag, what := range map[Tag]string{1: "large", 2: "lowered", noticeTag: "notice"} {
		if err := l.mods[1].Handle(tag, func(*Endpoint, Tag, []byte) { note(what) }); err != nil {
			t.Fatal(err)
		}
	}
	sendOrFail(t, l.ep, 1, make([]byte, 20_000))
	l.ep.Fence(l.now)
	sendOrFail(t, l.ep, 2, make([]byte, 1300))
	l.ep.Flush(l.now, func(error) { note("flush") })
	l.ep.Fence(l.now)
	put, err := l.ep.PreparePutNotice(filled(20_000, 1), l.region.Handle(), 0, noticeTag,
		[]byte("all"))
	if err != nil {
		t.Fatal(err)
	}
	put.Signal = true
	if _, err := l.ep.Send(l.now, put); err != nil {
		t.Fatal(err)
	}
	l.mods[0].all.Timers.Paths.Begin(&l.ep.c, pmtu.BaseBytes)
	l.until("the notice", 20*time.Microsecond, 5*time.Second, func() bool {
		return slices.Contains(order, "notice")
	})
	if want := []string{"large", "lowered", "flush", "notice"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}
