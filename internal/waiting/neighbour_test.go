package waiting

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

const ms = time.Millisecond

// preempted makes a policy know that its processor is shared, and returns it at the yield that
// follows.
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

// A neighbour that keeps the processor for a slice gets no further yield: the thread spins, and
// sleeps. It is tried again when the time is over, and each time in vain doubles that.
func TestNeighbourThatComputes(t *testing.T) {
	for _, mode := range []Mode{Adaptive, Busy} {
		var now mono.Time = 1
		thread := new(fakeThread)
		p := preempted(t, mode, thread, &now)
		p.Yielded(now, 3*ms) // a slice that may have been anybody's
		for want := apartLeast; want <= 2*apartMost; want *= 2 {
			apart := min(want, apartMost)
			now = now.Add(3 * ms) // his slice
			p.Yielded(now, 3*ms)
			for end := now.Add(apart); now < end; now = now.Add(apart / 10) {
				p.Begin(now)
				if got := p.Empty(now.Add(us)); got != Poll {
					t.Fatalf("%v: %v, and %v are left", mode, got, end.Sub(now))
				}
				got := p.Empty(now.Add(ms))
				if sleeps := mode == Adaptive; sleeps != (got == Sleep) || !sleeps && got != Poll {
					t.Fatalf("%v: %v after a millisecond", mode, got)
				}
			}
			if now = now.Add(us); !yieldsAgain(p, &now) {
				t.Fatalf("%v: no yield after %v", mode, apart)
			}
		}
		if got := p.Counts().Apart; got != 7 {
			t.Errorf("%v: %d slices counted", mode, got)
		}
		// The neighbour has gone: yields come back at once, and the next one is forgiven sooner.
		p.Yielded(now, 2*us)
		p.Yielded(now, 3*ms)
		if left := p.apart.Sub(now); left != apartMost {
			t.Errorf("%v: apart for %v after a short yield and a long one", mode, left)
		}
		now = p.apart
		for range 10 {
			p.Yielded(now, 2*us)
		}
		p.Yielded(now, 3*ms)
		if left := p.apart.Sub(now); left != apartLeast {
			t.Errorf("%v: apart for %v after many short yields", mode, left)
		}
	}
}

// A long yield alone, among others, is a slice of another session, or of a rank that computes for a
// moment: it keeps nobody from yielding. Ranks above processors would spin in each other's way.
func TestSlicesOfOthers(t *testing.T) {
	var now mono.Time = 1
	p := preempted(t, Adaptive, new(fakeThread), &now)
	for range 100 {
		now = now.Add(3 * ms)
		p.Yielded(now, 3*ms)
		now = now.Add(10 * us)
		p.Yielded(now, 10*us)
	}
	if !p.MayYield(now) || p.Counts().Apart != 0 {
		t.Errorf("%d slices far from each other are taken for a neighbour", p.Counts().Apart)
	}
}

// Beside a neighbour a thread spins for no longer than a wake-up costs, also one that was told to
// spin for longer: four such on one processor would make each other's yields long, for ever.
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
	if p.Begin(now); p.Empty(now.Add(wakeFirst)) != Sleep {
		t.Error("beside a neighbour it spins for longer than a wake-up costs")
	}
	now = now.Add(apartLeast)
	if p.Begin(now); p.Empty(now.Add(told-us)) == Sleep {
		t.Error("when the time is over it sleeps before its time")
	}
}

// yieldsAgain says whether a policy yields in the searches to come, whose thread is preempted.
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

// Yields that come back in microseconds say nothing of a neighbour, however many there are.
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

// Threads of a job that are more than the processors yield to each other, however long that takes.
func TestYieldsToFriends(t *testing.T) {
	var now mono.Time = 1
	p := preempted(t, Adaptive, new(fakeThread), &now)
	p.AmongFriends()
	for range 100 {
		now = now.Add(3 * ms)
		p.Yielded(now, 3*ms)
	}
	if p.Begin(now); !p.MayYield(now) || p.Empty(now.Add(us)) != Yield {
		t.Error("it does not yield to those that it waits for")
	}
}

// CedeBy tells the policy how long yields take, and does not yield while a neighbour computes.
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
	if reads != 2*yieldsLong || p.Counts().Apart != 1 {
		t.Errorf("%d long yields, %d readings: a neighbour is seen %d times", yieldsLong, reads,
			p.Counts().Apart)
	}
	reads, step = 0, us
	if CedeBy(p, clock); reads != 1 {
		t.Error("it yields to a neighbour that computes")
	}
	now, reads = now.Add(apartLeast), 0
	if CedeBy(p, clock); reads != 2 {
		t.Error("it does not yield when the time is over")
	}
}

// Where the threads of one process that wait are as many as its processors, a yield lets Go's other
// goroutines run: it must come, whoever computes beside them.
func TestCrowdedYieldsBesideNeighbour(t *testing.T) {
	var now mono.Time = 1
	thread := &fakeThread{crowded: true}
	p := New(Busy, 0, thread, now)
	for range yieldsLong {
		p.Yielded(now, 3*ms)
	}
	if !p.MayYield(now.Add(us)) || p.Empty(now.Add(us)) != Yield {
		t.Error("a crowded process does not yield beside a neighbour")
	}
}
