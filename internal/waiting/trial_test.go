package waiting

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// side is one of two threads that exchange questions and answers.
type side struct {
	*Policy

	since mono.Time     // when the side's search has begun
	spun  time.Duration // total spinning time
	slept int           // number of sleeps
}

// hear delivers a message to a side at an instant, and returns when the side continues.
func (s *side) hear(at mono.Time, wake time.Duration) mono.Time {
	if pause := at.Sub(s.since); pause > s.Budget() {
		s.spun += s.Budget()
		s.Slept(-1, pause-s.Budget(), 0)
		s.slept++
		at = at.Add(wake)
	} else {
		s.spun += pause
	}
	s.Found(at)
	return at
}

func newSide() *side {
	return &side{Policy: New(Adaptive, 0, &fakeThread{}, 1), since: 1}
}

// TestTrialWakesBoth checks two threads that exchange questions and answers, and whose sleeps take
// long to end. The threads must find out that they wait for each other's wake-ups. If questions are
// so rare that spinning does not pay, the threads must sleep.
func TestTrialWakesBoth(t *testing.T) {
	const wake, exchanges = 80 * us, 2000
	for _, tc := range []struct {
		name string
		// work of both sides; pause between an answer and the next question
		work, pause time.Duration
		sleeps      bool // whether the sides sleep at the end, asker and answerer
	}{
		{"busy", 20 * us, 0, false},
		{"busy, and one trial alone does not pay", 70 * us, 0, false},
		{"nearly idle", 20 * us, time.Millisecond, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now, asks, answers := mono.Time(1), newSide(), newSide()
			// both sides have spun without success for long
			asks.budget, answers.budget = spinLeast, spinLeast
			// the trials of the sides come at different times
			asks.trial.every = trialEvery * 3 / 2
			for i := range exchanges {
				if i == exchanges/2 {
					asks.slept, answers.slept = 0, 0
				}
				asks.since = now
				asks.Begin(now)
				now = answers.hear(now, wake).Add(tc.work)
				answers.since = now
				answers.Begin(now)
				now = asks.hear(now, wake).Add(tc.work + tc.pause)
			}
			if sleeps := answers.slept > exchanges/2*9/10; sleeps != tc.sleeps ||
				!sleeps && answers.slept+asks.slept > exchanges/100 {
				t.Errorf("of the last %d times the one that asks sleeps %d, the other one %d",
					exchanges/2, asks.slept, answers.slept)
			}
		})
	}
}

// TestTrialsInVain checks that trials cost little if sleeps cost little.
func TestTrialsInVain(t *testing.T) {
	now, s := mono.Time(1), newSide()
	for range 10 * trialEveryMost {
		s.since = now
		s.Begin(now)
		now = s.hear(now.Add(250*us), 20*us)
	}
	if share := float64(s.spun) / float64(now); share > .05 {
		t.Errorf("spins for %.3f of the time", share)
	}
	if s.trial.every != trialEveryMost || s.budgetMost() != s.wake {
		t.Errorf("a trial each %d pauses, and a sleep costs %v", s.trial.every, s.budgetMost())
	}
	// Results for short pauses say nothing about long pauses.
	s.trial.cost, s.budget = trialMost-us, trialMost-us
	for range 64 {
		s.since = now
		s.Begin(now)
		now = s.hear(now.Add(trialMost+50*us), 20*us)
	}
	if s.budget > s.wake {
		t.Errorf("spins for %v before each of the longer pauses", s.budget)
	}
	// An occasional long pause does not clear the result.
	s.trial.cost, s.budget = trialMost-us, trialMost-us
	for i := range 640 {
		s.since = now
		s.Begin(now)
		pause := 20 * us
		if i%10 == 0 {
			pause = 2 * trialMost
		}
		now = s.hear(now.Add(pause), 20*us)
	}
	if s.trial.cost == 0 {
		t.Error("forgets what a sleep costs for one long pause of ten")
	}
	// A trial that ends with a long pause has no result.
	s.trial.slept(trialMost + 1)
	s.trial.left = 2
	if s.trial.found(trialMost+1, 0) || s.trial.left > 0 {
		t.Error("a pause that was slept through does not end a trial")
	}
}
