package btl

import (
	"errors"
	"testing"
	"time"

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
