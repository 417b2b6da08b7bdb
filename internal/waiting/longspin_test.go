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
	if pause := at.Sub(s.since); pause > s.budget {
		s.spun += s.budget
		s.Slept(-1, pause-s.budget, 0)
		s.slept++
		at = at.Add(wake)
	} else {
		s.spun += pause
	}
	s.Found(at)
	return at
}

// parts delivers further packets of a message, and returns when the side has received the last one.
func (s *side) parts(at mono.Time, count int) mono.Time {
	for range count {
		at = at.Add(3 * us)
		s.Found(at)
	}
	return at
}

// beVain tells a side of waits in a row that were longer than all spinning times.
func (s *side) beVain(waits int) {
	s.vain = [len(s.vain)]uint{}
	for range waits {
		s.Late(silence)
	}
}

func newSide() *side {
	return &side{Policy: New(Adaptive, 0, &fakeThread{}, 1), since: 1}
}

// silence is a pause that is longer than any spinning time.
const silence = time.Millisecond

// TestLongSpinWakesBoth checks two threads that exchange questions and answers, and whose sleeps
// take long to end. The threads must find out that they wait for each other's wake-ups. If
// questions are so rare that spinning does not pay, the threads must sleep.
func TestLongSpinWakesBoth(t *testing.T) {
	const wake, exchanges = 80 * us, 2000
	for _, tc := range []struct {
		name string
		// work of both sides; pause between an answer and the next question
		work, pause time.Duration
		parts       int  // packets of a question or answer after the first one
		sleeps      bool // whether the sides sleep at the end, asker and answerer
	}{
		{"busy", 20 * us, 0, 0, false},
		{"busy, with work that takes almost as long as a wake-up", 70 * us, 0, 0, false},
		{"busy, with messages of two packets", 50 * us, 0, 1, false},
		{"busy, with messages of four packets", 50 * us, 0, 3, false},
		{"nearly idle", 20 * us, time.Millisecond, 0, true},
		{"nearly idle, with messages of two packets", 20 * us, time.Millisecond, 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now, asks, answers := mono.Time(1), newSide(), newSide()
			// both sides have spun without success for long
			asks.beVain(rareEvery / 2) // the sides try long spinning at different times
			answers.beVain(rareEvery / 4)
			for i := range exchanges {
				if i == exchanges/2 {
					asks.slept, answers.slept = 0, 0
				}
				asks.since = now
				asks.Begin(now)
				now = answers.parts(answers.hear(now, wake), tc.parts).Add(tc.work)
				answers.since = now
				answers.Begin(now)
				now = asks.parts(asks.hear(now, wake), tc.parts).Add(tc.work + tc.pause)
			}
			if sleeps := answers.slept > exchanges/2*9/10; sleeps != tc.sleeps ||
				!sleeps && answers.slept+asks.slept > exchanges/100 {
				t.Errorf("of the last %d times the one that asks sleeps %d, the other one %d",
					exchanges/2, asks.slept, answers.slept)
			}
		})
	}
}

// TestLongSpinInVain checks that a thread spins for little of the time if its pauses are longer
// than long spinning.
func TestLongSpinInVain(t *testing.T) {
	for _, tc := range []struct {
		pause time.Duration
		parts int     // packets of a message after the first one
		most  float64 // largest share of the time
	}{
		{longSpin*wakeFirst + us, 1, .07},
		{250 * us, 1, .05},
		{silence - us, 1, .05},
		{silence, 0, .008},
		{20 * silence, 0, .0004},
	} {
		now, s := mono.Time(1), newSide()
		for range 64 * rareEvery {
			s.since = now
			s.Begin(now)
			now = s.parts(s.hear(now.Add(tc.pause), 20*us), tc.parts)
		}
		if share := float64(s.spun) / float64(now); share > tc.most {
			t.Errorf("pauses of %v: spins for %.3f of the time", tc.pause, share)
		}
	}
}

// TestLongSpinEnds checks that an occasional long pause does not end long spinning, and that a few
// long pauses in a row do.
func TestLongSpinEnds(t *testing.T) {
	now, s := mono.Time(1), newSide()
	hear := func(pause time.Duration) {
		s.since = now
		s.Begin(now)
		now = s.hear(now.Add(pause), 20*us)
	}
	s.beVain(0)
	for i := range 640 {
		pause := 2 * wakeFirst
		if i%10 == 0 {
			pause = 10 * wakeFirst
		}
		hear(pause)
	}
	if s.slept != 64 {
		t.Errorf("sleeps %d times in 640, of which 64 are long", s.slept)
	}
	for range rareLeast + 1 {
		hear(10 * wakeFirst)
	}
	if s.budget > wakeFirst {
		t.Errorf("spins for %v before each of the longer pauses", s.budget)
	}
	fixed := New(Adaptive, 70*us, &fakeThread{}, now)
	for range 8 {
		fixed.Late(silence)
	}
	if fixed.budget != 70*us {
		t.Errorf("a fixed time becomes %v", fixed.budget)
	}
}
