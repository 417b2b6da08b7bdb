package waiting

import (
	"testing"

	"gobtl/internal/mono"
)

// gap polls twice, with the time of two gaps between the polls, in which stolen time was added. The
// time before that suffices for another query of the stolen time.
func gap(p *Policy, now *mono.Time, thread *fakeThread, stolen uint64) Action {
	*now = now.Add(stolenFor)
	p.Begin(*now)
	p.Empty(*now)
	thread.stolen += stolen
	*now = now.Add(2 * gapLeast)
	return p.Empty(*now)
}

// TestStolen enters the state Stolen by its evidence, and leaves it after its time. A thread with a
// fixed spinning time then spins for no longer than two wake-ups cost.
func TestStolen(t *testing.T) {
	const told = 300 * us
	now, thread := mono.Time(1), &fakeThread{stolen: 7}
	p := New(Adaptive, told, thread, now)
	gap(p, &now, thread, 1) // the first value is no rise
	if c := p.Counts(); c.State != Alone || c.Stolen != 0 {
		t.Errorf("the first value counts: %+v", c)
	}
	if action := gap(p, &now, thread, 1); action != Sleep {
		t.Errorf("%v after a gap, with the time for spinning over", action)
	}
	if c := p.Counts(); c.State != Stolen || c.Stolen != 1 || c.Apart != 0 {
		t.Errorf("%+v", c)
	}
	const brief = besideSpin * wakeFirst
	if p.Begin(now); p.Empty(now.Add(brief-us)) != Poll || p.Empty(now.Add(brief)) != Sleep {
		t.Error("it does not spin for as long as two wake-ups cost")
	}
	now = now.Add(stolenFor)
	if p.Begin(now); p.Empty(now.Add(told-us)) != Poll {
		t.Error("when the time is over it sleeps before its time")
	}
	if p.Found(now); p.Counts().State != Alone {
		t.Error("the state is never left")
	}
}

// TestNotStolen checks gaps that have other causes, and polls without gaps. Only a gap lets the
// policy ask for stolen time.
func TestNotStolen(t *testing.T) {
	now, thread := mono.Time(1), &fakeThread{stolen: 7}
	p := New(Adaptive, 0, thread, now)
	for range 1000 {
		now = now.Add(gapLeast / 2)
		p.Begin(now)
		p.Empty(now)
		now = now.Add(gapLeast - 1)
		p.Empty(now)
	}
	if thread.stolenAsked != 0 {
		t.Errorf("asked %d times without a gap", thread.stolenAsked)
	}
	gap(p, &now, thread, 0)
	gap(p, &now, thread, 0) // a pause of the garbage collector, or a long poll
	now = now.Add(stolenFor)
	p.Begin(now)
	p.Empty(now)
	thread.switches++ // a preemption, although other CPUs lose time
	thread.stolen++
	now = now.Add(2 * gapLeast)
	p.Empty(now)
	if c := p.Counts(); c.Stolen != 0 || thread.stolenAsked != 2 {
		t.Errorf("%+v, asked %d times", c, thread.stolenAsked)
	}
	p = New(Adaptive, us, thread, now)
	gap(p, &now, thread, 0)
	asked := thread.stolenAsked
	now = now.Add(stolenFor)
	p.Begin(now)
	if got := p.Empty(now.Add(us)); got != Yield {
		t.Errorf("%v, want a yield", got)
	}
	now = now.Add(2 * gapLeast)
	p.Yielded(now, 2*gapLeast)
	if p.Empty(now); thread.stolenAsked != asked {
		t.Error("a yield is taken for a gap")
	}
	now = now.Add(2 * gapLeast)
	p.Slept(-1, 2*gapLeast, 0)
	if p.Empty(now); thread.stolenAsked != asked {
		t.Error("a sleep is taken for a gap")
	}
}

// TestSharedNoGap checks that the time of the state Shared is no gap.
func TestSharedNoGap(t *testing.T) {
	now, thread := mono.Time(1), &fakeThread{stolen: 7}
	p := preempted(t, Busy, thread, &now)
	for i := 0; p.Empty(now) == Yield; i++ {
		if i > 2*yieldsLook {
			t.Fatal("goes on yielding with nobody there")
		}
		now = now.Add(gapLeast / 2)
		p.Yielded(now, us)
	}
	if p.Empty(now.Add(us)); thread.stolenAsked != 0 {
		t.Error("the time of yields is taken for a gap")
	}
}

// TestStolenFromOthers checks a thread that never sleeps, which only reports the state, and a
// thread of a job with more threads than processors, which must go on yielding.
func TestStolenFromOthers(t *testing.T) {
	now, thread := mono.Time(1), &fakeThread{stolen: 7}
	p := New(Busy, 0, thread, now)
	gap(p, &now, thread, 1)
	if action := gap(p, &now, thread, 1); action != Poll || p.Counts().State != Stolen {
		t.Errorf("%v in the state %v", action, p.Counts().State)
	}
	p = New(Adaptive, 0, thread, now)
	p.AmongFriends()
	gap(p, &now, thread, 1)
	gap(p, &now, thread, 1)
	if c := p.Counts(); c.Stolen != 1 || c.State == Stolen || !p.MayYield(now) {
		t.Errorf("a friend stops yielding: %+v", c)
	}
}

// TestBesideAfterStolen checks that later evidence of a computing thread changes the state.
func TestBesideAfterStolen(t *testing.T) {
	now, thread := mono.Time(1), &fakeThread{stolen: 7}
	p := New(Adaptive, 0, thread, now)
	gap(p, &now, thread, 1)
	gap(p, &now, thread, 1)
	for range yieldsLong {
		p.Yielded(now, 3*ms)
	}
	if s := p.Counts().State; s != Beside {
		t.Errorf("the state is %v", s)
	}
	if gap(p, &now, thread, 1); p.Counts().State != Beside {
		t.Error("a gap is taken for the end of the neighbour")
	}
}

// TestStolenSeldom checks that a policy seldom asks for the stolen time, however often there is a
// gap, because each query takes long.
func TestStolenSeldom(t *testing.T) {
	now, thread := mono.Time(1), &fakeThread{}
	p := New(Busy, 0, thread, now)
	for range 1000 {
		now = now.Add(2 * gapLeast)
		p.Empty(now)
	}
	if n, want := thread.stolenAsked, int(1000*2*gapLeast/stolenFor); n < want-1 || n > want {
		t.Errorf("asked %d times in two seconds, want %d", n, want)
	}
	thread.stolen = 7
	gap(p, &now, thread, 0)
	if gap(p, &now, thread, 1); p.Counts().Stolen != 1 {
		t.Errorf("later stolen time does not count: %+v", p.Counts())
	}
}
