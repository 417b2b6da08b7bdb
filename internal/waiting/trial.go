package waiting

import "time"

// trial finds out what a sleep costs by leaving some out. A pause that was slept through is longer
// than one that was spun through by the thread's own wake-up, and, where both sides of an exchange
// sleep, by the other's: neither can see that as long as it sleeps, and both would go on for ever.
//
//	trialEvery short pauses slept through --> trialLen spun through, up to trialMost
//	      ^                                       |
//	      |                 much shorter than the slept ones?
//	      |     yes: a sleep costs the difference    no: the next trial is farther away
//	      +---------------------------------------+
//
// So trials take a fifth of the time at first, and hardly any later.
type trial struct {
	late, spun sum
	left       int           // searches of the trial that are still to come
	every      int           // short pauses slept through before the next trial
	cost       time.Duration // what a sleep has been found to cost, 0: no more than a wake-up
	doubt      int           // grows with each pause that is too long for it, and falls with others
	shorter    int           // pauses in a row that were much shorter than the mean
}

const (
	// trialMost is the longest pause that may be worth spinning through. It is of the order of two
	// wake-ups of processors that have gone to sleep, which take a hypervisor some 100 us each.
	trialMost = 300 * time.Microsecond
	// trialEvery and trialEveryMost bound the pauses between two trials.
	trialEvery     = 64
	trialEveryMost = 64 << 6
	// trialLen is for how many searches a trial lasts. The first half of them gives the other side
	// the time to follow, and does not count.
	trialLen = 16
	// joinAfter is after how many much shorter pauses in a row a trial begins: the other side seems to
	// try, and what both save shows only if both do. joinShare bounds such trials: to so many times as
	// many as there are otherwise.
	joinAfter = 3
	joinShare = 8
	// doubtMost is the doubt at which what was found of short pauses is forgotten: most are long now.
	doubtMost = 32
)

// sum is a number of pauses, and the time that they took.
type sum struct {
	pauses int
	took   time.Duration
}

func (s *sum) add(pause time.Duration) {
	s.pauses++
	s.took += pause
}

func (s *sum) mean() time.Duration { return s.took / time.Duration(max(s.pauses, 1)) }

// spunThrough notes a pause that was.
func (t *trial) spunThrough() { t.doubt = max(t.doubt-1, 0) }

// slept notes a pause that was slept through.
func (t *trial) slept(pause time.Duration) {
	if pause > trialMost {
		if t.doubt += 2; t.doubt >= doubtMost {
			t.cost, t.doubt = 0, 0
		}
		return
	}
	t.spunThrough() // which it was nearly
	if t.late.pauses >= t.every/joinShare && 4*pause <= 3*t.late.mean() {
		t.shorter++
	} else {
		t.shorter = 0
	}
	if t.late.add(pause); t.late.pauses >= t.every || t.shorter >= joinAfter {
		t.left, t.spun, t.shorter = trialLen, sum{}, 0
	}
}

// found notes a pause of a trial, and says whether the trial is over and has shown that spinning
// pays: the sleeps cost more than three fifths of the time that it takes to spin. What the budget
// would have caught as well is not compared.
func (t *trial) found(pause, budget time.Duration) (pays bool) {
	t.left--
	if t.left < trialLen/2 && pause > budget {
		t.spun.add(pause)
	}
	if pause > trialMost {
		t.left = 0 // it has slept after all
	}
	if t.left > 0 {
		return false
	}
	late, spun := t.late.mean(), t.spun.mean()
	t.late = sum{}
	if pause <= trialMost && 8*spun <= 5*late {
		t.cost, t.every = late-spun, trialEvery
		return true
	}
	t.cost, t.every = 0, min(2*t.every, trialEveryMost)
	return false
}
