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

// Where the threads of one process that wait are as many as its processors, a yield lets Go's other
// goroutines run: it must come, whoever computes beside them.
func TestCrowdedYieldsBesideNeighbour(t *testing.T) {
	var now mono.Time = 1
	thread := &fakeThread{crowded: true}
	p := New(Busy, 0, thread, now)
	p.Yielded(now, 3*ms)
	if !p.MayYield(now.Add(us)) || p.Empty(now.Add(us)) != Yield {
		t.Error("a crowded process does not yield beside a neighbour")
	}
}
