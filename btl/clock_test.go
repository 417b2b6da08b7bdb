package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// What is later than the module's Deadline is no time in which its peers were silent.
func TestClockPause(t *testing.T) {
	const pauseMin = time.Second
	for _, tc := range []struct {
		name   string
		passAt Time
		now    Time
		asked  Time // the Deadline
		to     Time
		awake  time.Duration // that the call adds
	}{
		{"in time", 100, 100, 200, 200, 100},
		{"idle for long, nothing was asked for", 100, 100, Never, Time(time.Hour) + 100, time.Hour},
		{"called late", 100, 100, 200, Time(time.Hour) + 200, 100},
		{"late since something was asked for", 100, 300, 0, Time(time.Hour) + 300, 0},
		{"late by less than matters", 100, 100, 200, 100 + Time(pauseMin) - 1, pauseMin - 1},
		{"at the same instant", 100, 300, 0, 300, 0},
	} {
		c := clock{now: tc.now, nowUnpaused: 50, passAt: tc.passAt, pauseMin: pauseMin}
		asked := Never // as Module.advance has it
		if c.mayPause(tc.to) {
			asked = tc.asked
		}
		if c.advance(tc.to, asked); c.now != tc.to || c.nowUnpaused.Sub(50) != tc.awake {
			t.Errorf("%s: now %d, awake for another %v; want %d and %v", tc.name, c.now,
				c.nowUnpaused.Sub(50), tc.to, tc.awake)
		}
	}
}

// A module that sends between two passes, and whose owner is stopped then, does not blame its peer,
// which could not be heard meanwhile.
func TestSendThenStopped(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	ep := l.connect(0, 1)
	mustHandle(t, l.mods[1], func() {})
	l.settle(time.Second)
	l.now = l.now.Add(time.Minute) // idle
	ep.m.at(l.now)                 // which send takes as the present instant
	ended := send(t, ep, 10)
	before := ep.m.nowUnpaused
	l.now = l.now.Add(time.Hour) // stopped
	l.step(time.Microsecond)
	if blamed := ep.m.nowUnpaused.Sub(before); blamed > time.Second {
		t.Errorf("%v of the hour count as the peer's silence", blamed)
	}
	l.until("ended", 10*time.Microsecond, time.Second, func() bool {
		return !errors.Is(*ended, errPending)
	})
	if *ended != nil {
		t.Error(*ended)
	}
}
