package waiting

import "time"

// trial measures the cost of a sleep by spinning through some pauses instead of sleeping. A
// sleeping thread cannot measure the wake-up of the thread at the other end. Without trials, two
// threads that wait for each other would sleep in every pause.
//
//	trialEvery short pauses slept through --> trialLen spun through, up to trialMost
//	      ^                                       |
//	      |                 much shorter than the slept ones?
//	      |     yes: a sleep costs the difference    no: the next trial is farther away
//	      +---------------------------------------+
//
// Trials cover about a fifth of the pauses at first, and few of the later pauses.
type trial struct {
	late, spun sum
	left       int           // remaining searches of the trial
	every      int           // short pauses with sleeps before the next trial
	cost       time.Duration // measured cost of a sleep, 0: no more than a wake-up
	doubt      int           // rises with each pause above trialMost, falls with each other pause
	shorter    int           // consecutive pauses that were much shorter than the mean
}

const (
	// trialMost is the longest pause for which spinning may be worthwhile.
	trialMost = 300 * time.Microsecond
	// trialEvery and trialEveryMost are the least and the largest number of pauses between two
	// trials.
	trialEvery     = 64
	trialEveryMost = 64 << 6
	// trialLen is the number of pauses in a trial. The first half of a trial is not counted,
	// because the other thread needs time to stop sleeping.
	trialLen = 16
	// joinAfter is the number of consecutive pauses, much shorter than usual, after which a trial
	// begins early, because the other thread seems to run a trial. A trial shows the full saving
	// only if both waiting threads spin at the same time. The number of early trials is at most
	// joinShare times the number of regular trials.
	joinAfter = 3
	joinShare = 8
	// doubtMost is the value of doubt at which the measured cost is discarded, because most pauses
	// have become long.
	doubtMost = 32
)

// sum is the number of some pauses with their total duration.
type sum struct {
	pauses int
	took   time.Duration
}

func (s *sum) add(pause time.Duration) {
	s.pauses++
	s.took += pause
}

func (s *sum) mean() time.Duration { return s.took / time.Duration(max(s.pauses, 1)) }

func (t *trial) spunThrough() { t.doubt = max(t.doubt-1, 0) }

func (t *trial) slept(pause time.Duration) {
	if pause > trialMost {
		if t.doubt += 2; t.doubt >= doubtMost {
			t.cost, t.doubt = 0, 0
		}
		return
	}
	t.spunThrough() // a short pause counts as spun through
	if t.late.pauses >= t.every/joinShare && 4*pause <= 3*t.late.mean() {
		t.shorter++
	} else {
		t.shorter = 0
	}
	if t.late.add(pause); t.late.pauses >= t.every || t.shorter >= joinAfter {
		t.left, t.spun, t.shorter = trialLen, sum{}, 0
	}
}

// found records a pause of a trial. found returns true if the trial is over and has shown that
// spinning is worthwhile. Spinning is worthwhile if the sleeps cost at least three fifths of the
// time that spinning takes.
func (t *trial) found(pause, budget time.Duration) (pays bool) {
	t.left--
	if t.left < trialLen/2 && pause > budget {
		t.spun.add(pause)
	}
	if pause > trialMost {
		t.left = 0 // the pause was too long to spin through
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
