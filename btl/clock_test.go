package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// A module that sends between two passes, and whose owner is stopped then, does not blame its peer,
// which could not be heard meanwhile.
func TestSendThenStopped(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	ep := l.connect(0, 1)
	mustHandle(t, l.mods[1], func() {})
	l.settle(time.Second)
	l.now = l.now.Add(time.Minute) // idle
	ep.c.All.At(l.now)             // which send takes as the present instant
	ended := send(t, ep, 10)
	before := ep.c.All.Clock.Unpaused
	l.now = l.now.Add(time.Hour) // stopped
	l.step(time.Microsecond)
	if blamed := ep.c.All.Clock.Unpaused.Sub(before); blamed > time.Second {
		t.Errorf("%v of the hour count as the peer's silence", blamed)
	}
	l.until("ended", 10*time.Microsecond, time.Second, func() bool {
		return !errors.Is(*ended, errPending)
	})
	if *ended != nil {
		t.Error(*ended)
	}
}
