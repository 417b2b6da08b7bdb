package waiting

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// fakeThread is a thread whose kernel counters the tests set.
type fakeThread struct {
	switches uint64
	crowded  bool
	asked    int

	stolen      uint64
	stolenAsked int
	yields      int
}

func (t *fakeThread) Yield() { t.yields++ }

func (t *fakeThread) Stolen() uint64 {
	t.stolenAsked++
	return t.stolen
}

func (t *fakeThread) Switches() uint64 {
	t.asked++
	return t.switches
}

func (t *fakeThread) Crowded() bool { return t.crowded }

const us = time.Microsecond

// step is an event for a policy, and the expected action.
type step struct {
	after time.Duration // time after the previous step
	found bool
	slept time.Duration // requested sleep; the rest of after is late; 0: no sleep
	want  Action        // after an empty search
}

// run applies the steps to the policy, and returns the policy.
func run(t *testing.T, p *Policy, now *mono.Time, steps []step) {
	t.Helper()
	for i, s := range steps {
		*now = now.Add(s.after)
		if s.slept != 0 {
			p.Slept(s.slept, s.after, 0)
		}
		if s.found {
			p.Found(*now)
			continue
		}
		if got := p.Empty(*now); got != s.want {
			t.Fatalf("step %d, at %v: %v, want %v", i, time.Duration(*now), got, s.want)
		}
	}
}

func TestModes(t *testing.T) {
	const hour = time.Hour
	for _, tc := range []struct {
		name  string
		mode  Mode
		spin  time.Duration
		steps []step
	}{
		{"busy never sleeps", Busy, 0, []step{{after: us}, {after: hour}, {found: true}, {after: hour}}},
		{"event never spins", Event, 0, []step{
			{want: Sleep}, {after: us, found: true}, {want: Sleep},
		}},
		{"adaptive spins for a wake-up", Adaptive, 0, []step{
			{after: wakeFirst - 1},
			{after: 1, want: Yield},
			{want: Sleep},
			{after: us, slept: us, found: true},
			{after: 3 * us},
		}},
		{"a fixed time", Adaptive, 70 * us, []step{
			{after: 69 * us},
			{after: us, want: Yield},
			{want: Sleep},
			{after: hour, slept: hour, want: Sleep},
			{after: us, found: true},
			{after: 69 * us},
			{after: us, want: Yield},
			{want: Sleep},
		}},
		{"asleep until something is found", Adaptive, 0, []step{
			{after: hour, want: Yield},
			{want: Sleep},
			{after: hour, slept: hour, want: Sleep},
			{after: hour, slept: hour, want: Sleep},
			{after: us, found: true},
			{after: us},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := mono.Time(1)
			run(t, New(tc.mode, tc.spin, &fakeThread{}, now), &now, tc.steps)
		})
	}
}

// TestLearnsPauses checks pauses of one length. The policy must spin if spinning pays, and hardly
// spin if spinning fails.
func TestLearnsPauses(t *testing.T) {
	for _, tc := range []struct {
		pause    time.Duration
		min, max time.Duration // of the budget at the end
	}{
		{2 * us, wakeFirst, wakeFirst},
		{15 * us, 2 * 15 * us, wakeFirst},
		{50 * us, longSpin * wakeFirst, longSpin * wakeFirst}, // slightly longer than the first budget
		{time.Millisecond, 0, 0},
		{time.Second, 0, 0},
	} {
		now := mono.Time(1)
		p := New(Adaptive, 0, &fakeThread{}, now)
		for range rareEvery - 1 {
			if tc.pause >= p.budget {
				empty := now.Add(p.budget)
				if action := p.Empty(empty); action != Sleep && (action != Yield || p.Empty(empty) != Sleep) {
					t.Fatal("does not sleep after its budget, nor yield before that")
				}
				p.Slept(-1, tc.pause-p.budget, 0)
			}
			now = now.Add(tc.pause)
			p.Found(now)
		}
		if b := p.budget; b < tc.min || b > tc.max {
			t.Errorf("pauses of %v: spins for %v, want %v to %v", tc.pause, b, tc.min, tc.max)
		}
		// A burst follows. The first answer is late, and spinning catches the next answers.
		now = now.Add(30 * us)
		if p.Empty(now) != Poll {
			p.Slept(-1, 20*us, 0)
		}
		p.Found(now)
		if p.Empty(now.Add(30*us)) != Poll {
			t.Errorf("pauses of %v, then of 30 us: the second of those is slept through", tc.pause)
		}
	}
}

// TestLearnsLate checks that another thread finds the work that this thread has stopped searching
// for.
func TestLearnsLate(t *testing.T) {
	now := mono.Time(1)
	p := New(Adaptive, 0, &fakeThread{}, now)
	if p.Begin(now.Add(us)); p.Since() != now.Add(us) {
		t.Errorf("the search has begun at %v", p.Since())
	}
	for range rareEvery - 1 {
		p.Late(300 * us)
	}
	if b := p.budget; b != 0 {
		t.Errorf("always in vain, and it spins for %v", b)
	}
	if p.Late(50 * us); p.budget != longSpin*wakeFirst {
		t.Errorf("a near thing, and it spins for %v", p.budget)
	}
	fixed := New(Adaptive, 70*us, &fakeThread{}, now)
	if fixed.Late(time.Second); fixed.budget != 70*us {
		t.Errorf("a fixed time becomes %v", fixed.budget)
	}
}

// TestLearnsWakes checks sleeps that end late by a given time.
func TestLearnsWakes(t *testing.T) {
	for _, tc := range []struct{ late, slack, want time.Duration }{
		{30 * us, 0, 30 * us},
		{80 * us, 50 * us, 30 * us},
		{5 * us, 0, wakeLeast},
		{time.Second, 0, wakeMost},
	} {
		now := mono.Time(1)
		p := New(Adaptive, 0, &fakeThread{}, now)
		for range 64 {
			p.Slept(time.Millisecond, time.Millisecond+tc.late, tc.slack)
			p.Slept(time.Second, 50*us, tc.slack) // woken early: no sample
			p.Slept(-1, time.Hour, tc.slack)      // no limit: no sample
		}
		if w := p.SleepMin(); w < tc.want-us || w > tc.want+us {
			t.Errorf("late by %v with a slack of %v: a wake-up costs %v, want %v", tc.late, tc.slack, w,
				tc.want)
		}
	}
}

func TestSharedProcessor(t *testing.T) {
	thread := &fakeThread{}
	now := mono.Time(1)
	p := New(Busy, 0, thread, now)
	next := func() Action {
		now = now.Add(us)
		return p.Empty(now)
	}
	for range 1000 {
		if next() != Poll {
			t.Fatal("yields, though nobody wants the processor")
		}
	}
	if thread.asked > 1000/100+2 {
		t.Errorf("asks the kernel %d times in a millisecond", thread.asked)
	}
	thread.asked = 0
	for range 1000 {
		if next(); next() != Poll {
			t.Fatal("yields, though nobody wants the processor")
		}
		p.Found(now)
	}
	if thread.asked > 1 {
		t.Errorf("asks the kernel %d times while it finds work", thread.asked)
	}
	thread.switches++
	for i := 0; next() == Poll; i++ {
		if i > 100 {
			t.Fatal("preempted, and spins on")
		}
	}
	if !p.shared || p.Counts().Crowded != 1 {
		t.Error("does not tell of it")
	}
	for range 1000 { // another thread sometimes runs during a yield
		if thread.switches++; next() != Yield {
			t.Fatal("stops yielding to who wants the processor")
		}
	}
	for i := 0; next() == Yield; i++ {
		if i > 2*yieldsLook {
			t.Fatal("goes on yielding with nobody there")
		}
	}
	thread.crowded = true
	for i := 0; next() == Poll; i++ {
		if i > 100 {
			t.Fatal("does not see that all processors of the process wait")
		}
	}
	for range 1000 {
		if next() != Yield {
			t.Fatal("stops yielding in a crowd")
		}
	}
	if New(Busy, 0, thread, now).Empty(now) != Yield {
		t.Error("a thread too many begins by spinning")
	}
}

// TestSharedByOneThatSleeps checks two threads on one processor, each of which sleeps before it can
// be preempted.
func TestSharedByOneThatSleeps(t *testing.T) {
	now := mono.Time(1)
	p := New(Adaptive, 0, &fakeThread{}, now)
	now = now.Add(wakeMost)
	if p.Empty(now) != Yield {
		t.Fatal("sleeps without trying whether the other one needs the processor")
	}
	p.Found(now) // the other thread found work
	if p.Empty(now) != Yield || !p.shared || p.Counts().Crowded != 1 {
		t.Error("spins on, while the other one cannot run")
	}
	for i := 0; p.Empty(now) == Yield; i++ {
		if i > 2*yieldsLook {
			t.Fatal("goes on yielding with nobody there")
		}
	}
}

func TestNames(t *testing.T) {
	for _, m := range []Mode{Adaptive, Busy, Event} {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("%v is read as %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode("lazy"); err == nil {
		t.Error("any name is a mode")
	}
}

func TestNoAllocations(t *testing.T) {
	leave := Enter()
	defer leave()
	now := mono.Time(1)
	p := New(Adaptive, 0, &OSThread{}, now)
	allocs := testing.AllocsPerRun(1000, func() {
		now = now.Add(30 * us)
		switch p.Empty(now) {
		case Sleep:
			p.Slept(us, 10*us, TimerSlack())
			p.Found(now)
		case Yield:
			Cede()
		}
	})
	if allocs > 0 {
		t.Errorf("%.1f allocations", allocs)
	}
	if allocs := testing.AllocsPerRun(100, askNetpoller); allocs > 0 {
		t.Errorf("%.1f allocations to ask the network poller", allocs)
	}
}
