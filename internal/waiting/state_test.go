package waiting

import (
	"testing"

	"gobtl/internal/mono"
)

// TestStates enters each state by its evidence, and leaves it when the evidence has gone.
func TestStates(t *testing.T) {
	var now mono.Time = 1
	thread := new(fakeThread)
	is := func(p *Policy, want State) {
		t.Helper()
		if got := p.Counts().State; got != want {
			t.Errorf("the state is %v, want %v: %s", got, want, want.Describe())
		}
	}
	p := New(Adaptive, 0, thread, now)
	is(p, Alone)
	p = preempted(t, Adaptive, thread, &now)
	is(p, Shared)
	for range yieldsLong {
		now = now.Add(3 * ms)
		p.Yielded(now, 3*ms)
	}
	is(p, Beside)
	now = p.apart
	p.Found(now)
	is(p, Shared)
	for range yieldsLook { // no yield lets another thread run
		p.Begin(now)
		if now = now.Add(us); p.Empty(now) == Yield {
			p.Yielded(now, us)
		}
	}
	is(p, Alone)
}

// TestStatesTogether adds the counts of two policies, whose state is the one with more neighbours.
func TestStatesTogether(t *testing.T) {
	c := Counts{Sleeps: 1, Stolen: 1, State: Beside}
	c.Add(Counts{Sleeps: 2, Stolen: 3, State: Shared})
	if c.Sleeps != 3 || c.Stolen != 4 || c.State != Beside {
		t.Errorf("%+v", c)
	}
	c = Counts{State: Alone}
	if c.Add(Counts{State: Shared}); c.State != Shared {
		t.Errorf("%+v", c)
	}
}
