package waiting

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

const ms = time.Millisecond

// preempted tells a policy that its processor is shared, and returns the policy at the next yield.
func preempted(t *testing.T, mode Mode, thread *fakeThread, now *mono.Time) *Policy {
	t.Helper()
	p := New(mode, 0, thread, *now)
	thread.switches++
	for range 10 {
		*now = now.Add(lookEvery)
		p.Begin(*now)
		*now = now.Add(us)
		if p.Empty(*now) == Yield {
			return p
		}
	}
	t.Fatal("a thread that was preempted does not yield")
	return nil
}

// TestNeighbourThatComputes checks a neighbour that keeps the processor for a time slice. The
// thread stops yielding, spins, and sleeps. After some time the thread tries a yield again.
func TestNeighbourThatComputes(t *testing.T) {
	for _, mode := range []Mode{Adaptive, Busy} {
		var now mono.Time = 1
		thread := new(fakeThread)
		p := preempted(t, mode, thread, &now)
		p.Yielded(now, 3*ms) // a single long yield, which may have any cause
		for i := range 4 {
			now = now.Add(3 * ms) // the neighbour's time slice
			p.Yielded(now, 3*ms)
			for end := now.Add(besideFor); now < end; now = now.Add(besideFor / 10) {
				p.Begin(now)
				if got := p.Empty(now.Add(us)); got == Yield || mode == Busy && got != Poll {
					t.Fatalf("%v: %v, and %v are left", mode, got, end.Sub(now))
				}
				got := p.Empty(now.Add(ms))
				if sleeps := mode == Adaptive; sleeps != (got == Sleep) || !sleeps && got != Poll {
					t.Fatalf("%v: %v after a millisecond", mode, got)
				}
			}
			if now = now.Add(us); !yieldsAgain(p, &now) {
				t.Fatalf("%v: no yield after %v", mode, besideFor)
			}
			if got := p.Counts().Apart; got != uint64(i)+1 {
				t.Errorf("%v: %d slices counted", mode, got)
			}
		}
		// A single long yield after a short one stops the yields for a short time.
		p.Yielded(now, 2*us)
		p.Yielded(now, 3*ms)
		if p.MayYield(now.Add(stolenFor-us)) || !p.MayYield(now.Add(stolenFor)) {
			t.Errorf("%v: a single long yield does not stop the yields for %v", mode, stolenFor)
		}
	}
}

// TestSlicesOfOthers checks long yields that are far from each other, beside a neighbour of low
// priority, or of another session. Each long yield stops the yields for a short time, so that the
// neighbour takes only a small part of the CPU time.
func TestSlicesOfOthers(t *testing.T) {
	var now mono.Time = 1
	p := preempted(t, Adaptive, new(fakeThread), &now)
	for i := range 100 {
		now = now.Add(3 * ms)
		p.Yielded(now, 3*ms)
		if now = now.Add(stolenFor - us); p.MayYield(now) {
			t.Fatal("it yields soon after a long yield")
		}
		if now = now.Add(us); !p.MayYield(now) || p.Counts().Apart != uint64(i)+1 {
			t.Fatalf("no yield %v after a long one, %d slices counted", stolenFor, p.Counts().Apart)
		}
		now = now.Add(10 * us)
		p.Yielded(now, 10*us)
	}
}

// TestSpinsBrieflyBesideNeighbour checks that a thread with a computing neighbour spins for no
// longer than two wake-ups cost, even with a longer fixed time. Four such threads on one processor
// would otherwise make each other's yields long for ever.
func TestSpinsBrieflyBesideNeighbour(t *testing.T) {
	const told = 300 * us
	var now mono.Time = 1
	p := New(Adaptive, told, new(fakeThread), now)
	if p.Begin(now); p.Empty(now.Add(told-us)) == Sleep {
		t.Error("alone it sleeps before its time")
	}
	for range yieldsLong {
		now = now.Add(3 * ms)
		p.Yielded(now, 3*ms)
	}
	if p.Begin(now); p.Empty(now.Add(besideSpin*wakeFirst)) != Sleep {
		t.Error("beside a neighbour it spins for longer than two wake-ups cost")
	}
	now = now.Add(besideFor)
	if p.Begin(now); p.Empty(now.Add(told-us)) == Sleep {
		t.Error("when the time is over it sleeps before its time")
	}
}

// yieldsAgain reports whether a policy whose thread is preempted yields in later searches.
func yieldsAgain(p *Policy, now *mono.Time) bool {
	thread, _ := p.thread.(*fakeThread)
	for range 3 * rareEvery {
		thread.switches++
		*now = now.Add(2 * lookEvery)
		p.Begin(*now)
		if p.Empty(now.Add(us)) == Yield {
			return true
		}
	}
	return false
}

// TestYieldsToOthersThatWait checks that yields that return in microseconds show no computing
// neighbour, however many such yields there are.
func TestYieldsToOthersThatWait(t *testing.T) {
	var now mono.Time = 1
	p := preempted(t, Busy, new(fakeThread), &now)
	for range 1000 {
		now = now.Add(30 * us)
		p.Yielded(now, 30*us)
		p.thread.(*fakeThread).switches++
		if p.Empty(now) != Yield || !p.MayYield(now) {
			t.Fatal("a thread among others that wait does not yield any more")
		}
	}
	if p.Counts().Apart != 0 {
		t.Error("a neighbour was seen where none is")
	}
}

// TestYieldsToFriends checks that threads of a job with more threads than processors yield to each
// other, although some of the yields are long.
func TestYieldsToFriends(t *testing.T) {
	var now mono.Time = 1
	p := preempted(t, Adaptive, new(fakeThread), &now)
	p.AmongFriends()
	for i := range 100 {
		took := 3 * ms
		if i%friendsLong == friendsLong-1 {
			took = gapLeast - us
		}
		now = now.Add(took)
		p.Yielded(now, took)
	}
	if p.Begin(now); !p.MayYield(now) || p.Empty(now.Add(us)) != Yield {
		t.Error("it does not yield to those that it waits for")
	}
	if c := p.Counts(); c.Apart != 0 {
		t.Errorf("%d neighbours are seen where none is", c.Apart)
	}
}

// TestFriendsBesideNeighbour checks a crowded job beside a program that computes: almost all yields
// are long. A thread of this job then hardly polls, does not yield, and sleeps. After besideFor,
// the thread tries its yields again.
func TestFriendsBesideNeighbour(t *testing.T) {
	var now mono.Time = 1
	thread := new(fakeThread)
	p := New(Adaptive, 300*us, thread, now)
	p.AmongFriends()
	for i := range friendsLong {
		if !p.MayYield(now) {
			t.Fatalf("it does not yield after %d long yields", i)
		}
		now = now.Add(3 * ms)
		p.Yielded(now, 3*ms)
	}
	if c := p.Counts(); c.Apart != 1 || c.State != Beside {
		t.Errorf("after %d long yields: %+v", friendsLong, c)
	}
	for end := now.Add(besideFor); now < end; now = now.Add(besideFor / 10) {
		p.Begin(now)
		if got := p.Empty(now.Add(spinLeast - us)); got != Poll {
			t.Fatalf("%v at first, beside a neighbour", got)
		}
		if got := p.Empty(now.Add(spinLeast)); got != Sleep {
			t.Fatalf("%v after %v, beside a neighbour", got, spinLeast)
		}
	}
	if p.Begin(now); !p.MayYield(now) || p.Empty(now.Add(spinLeast)) != Poll {
		t.Error("when the time is over it still takes its friends for a neighbour")
	}
}

// TestFriendsThatNeverSleep checks that threads of a crowded job go on yielding in the mode Busy,
// however long the yields take. Such threads would otherwise poll on the same processor.
func TestFriendsThatNeverSleep(t *testing.T) {
	var now mono.Time = 1
	p := preempted(t, Busy, new(fakeThread), &now)
	p.AmongFriends()
	for range 3 * friendsLong {
		now = now.Add(3 * ms)
		p.Yielded(now, 3*ms)
		if p.Empty(now) != Yield {
			t.Fatal("it does not yield to those that it waits for")
		}
	}
}

// TestFriendsYieldBeforeSleep checks that a thread of a crowded job yields for the time friendsFor
// before it sleeps, and that the usual spinning time applies while it has the CPU for itself.
func TestFriendsYieldBeforeSleep(t *testing.T) {
	var now mono.Time = 1
	thread := new(fakeThread)
	p := New(Adaptive, 300*us, thread, now)
	p.AmongFriends()
	if got := p.Empty(now.Add(50 * us)); got != Poll {
		t.Errorf("the action is %v at first", got)
	}
	if got := p.Empty(now.Add(301 * us)); got != Yield {
		t.Errorf("the action is %v before the first sleep", got)
	}
	if got := p.Empty(now.Add(302 * us)); got != Sleep {
		t.Errorf("the action is %v after the spinning time, without another thread", got)
	}
	thread.switches++
	now = now.Add(ms)
	p.Begin(now)
	if got := p.Empty(now.Add(lookEvery)); got != Yield {
		t.Fatalf("the action is %v after a preemption", got)
	}
	if got := p.Empty(now.Add(friendsFor - us)); got != Yield {
		t.Errorf("the action is %v before friendsFor is over", got)
	}
	if got := p.Empty(now.Add(friendsFor)); got != Sleep {
		t.Errorf("the action is %v after friendsFor", got)
	}
}

// TestCedeBy checks that CedeBy reports the duration of yields to the policy, and does not yield
// while a neighbour computes.
func TestCedeBy(t *testing.T) {
	var now mono.Time = 1
	p := New(Busy, 0, new(fakeThread), now)
	reads, step := 0, 3*ms
	clock := func() mono.Time {
		reads++
		now = now.Add(step)
		return now
	}
	for range yieldsLong {
		CedeBy(p, clock)
	}
	if reads != yieldsLong+1 || p.Counts().Apart != 1 {
		t.Errorf("%d calls, one long yield, %d readings: a neighbour is seen %d times", yieldsLong,
			reads, p.Counts().Apart)
	}
	reads, step = 0, us
	if CedeBy(p, clock); reads != 1 {
		t.Error("it yields to a neighbour that computes")
	}
	now, reads = now.Add(besideFor), 0
	if CedeBy(p, clock); reads != 2 {
		t.Error("it does not yield when the time is over")
	}
}

// TestCrowdedBesideNeighbour checks a process in which as many threads wait as there are
// processors. The thread must let Go's other goroutines run even with a computing neighbour. But
// the thread does not give the CPU to the neighbour.
func TestCrowdedBesideNeighbour(t *testing.T) {
	var now mono.Time = 1
	thread := &fakeThread{crowded: true}
	p := New(Busy, 0, thread, now)
	for range yieldsLong {
		p.Yielded(now, 3*ms)
	}
	if !p.MayYield(now.Add(us)) || p.Empty(now.Add(us)) != Yield {
		t.Error("a crowded process does not yield beside a neighbour")
	}
	clock := func() mono.Time { return now }
	before := yields.Load()
	if CedeBy(p, clock); thread.yields != 0 {
		t.Error("a crowded process gives its CPU to a neighbour that computes")
	}
	if yields.Load() == before {
		t.Error("other goroutines do not run")
	}
	now = now.Add(besideFor)
	if CedeBy(p, clock); thread.yields != 1 {
		t.Error("a crowded process does not yield when the time is over")
	}
}
