package waiting

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// Mode is how somebody waits.
type Mode uint8

// The modes.
const (
	Adaptive Mode = iota // spin for what a wake-up costs, then sleep
	Busy                 // spin: the lowest latency, for all of a processor
	Event                // sleep: the least of a processor, for a wake-up each time
)

var modeNames = [...]string{Adaptive: "adaptive", Busy: "busy", Event: "event"}

// String returns the mode's name.
func (m Mode) String() string {
	if int(m) >= len(modeNames) {
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
	return modeNames[m]
}

// ParseMode returns the mode of a name.
func ParseMode(name string) (Mode, error) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), nil
		}
	}
	return 0, fmt.Errorf("waiting: %q is not busy, adaptive or event", name)
}

// Action is what to do next.
type Action uint8

// The actions.
const (
	Poll  Action = iota // look again at once
	Yield               // let others have the processor, then look again
	Sleep               // until something happens; then tell the policy with Slept
)

// Thread is what the policy must know of the thread that waits.
type Thread interface {
	// Switches counts how often the thread has had to leave the processor although it could go on,
	// yielding to another included.
	Switches() uint64
	// Crowded says that as many threads of this process wait as it has processors.
	Crowded() bool
}

const (
	// wakeFirst is what a wake-up is taken to cost before one was seen; the others bound what is
	// learned.
	wakeFirst = 40 * time.Microsecond
	wakeLeast = 20 * time.Microsecond
	wakeMost  = 60 * time.Microsecond
	// spinLeast is for how long to spin where it has always been in vain: an answer of a peer that
	// is awake may be caught still.
	spinLeast = 4 * time.Microsecond
	// silence is a pause in which nobody who is awake would have been caught, however long the
	// search had gone on. Behind calmLeast of them in a row the next one is taken to be such, too.
	silence   = time.Millisecond
	calmLeast = 4
	// rareLeast is how often in a row something may be tried in vain; then it is so often in
	// rareEvery times.
	rareLeast = 2
	rareEvery = 64
	// learnLog2 is how much a new observation counts: an eighth.
	learnLog2 = 3
	// lookEvery is how long a search must be in vain before the kernel is asked for preemptions, and
	// before it is asked again.
	lookEvery = 100 * time.Microsecond
	// yieldsLook is how many yields there are between two looks whether anybody takes the processor.
	yieldsLook = 64
	// yieldsTaken is how many of them must have let somebody run to go on yielding.
	yieldsTaken = 4
	// yieldLong is a yield that only somebody who computes makes so long: Linux gives him a slice.
	// One who waits as well gives the processor back in microseconds.
	yieldLong = time.Millisecond
	// yieldsLong of them in a row show a neighbour: each yield gives him a slice. One alone may be a
	// slice of another group, which it takes whether anybody yields or not, or a rank of the own job
	// that has computed for a moment.
	yieldsLong = 2
	// apartLeast is for how long nothing is yielded to such a neighbour. Then one yield may show
	// whether he is there still: each that does doubles the time, up to apartMost.
	apartLeast = 100 * time.Millisecond
	apartMost  = 3200 * time.Millisecond
)

// Policy decides for one thread. Make one with New.
type Policy struct {
	mode   Mode
	fixed  bool // the budget is the caller's
	slept  bool // since the latest find
	shared bool // others want the processor
	friend bool // those are threads that wait as well: see AmongFriends
	probed bool // has yielded once before it sleeps
	cold   bool // the search has begun after a silence
	yields int  // since the latest look
	calm   int  // silences slept through in a row, up to calmLeast
	probes uint // chances in a row to yield before a sleep, of which none has helped anybody
	near   uint // pauses after silences in a row that were a near thing, of which none was caught
	long   int  // long yields in a row
	thread Thread

	since  mono.Time // of the latest find
	lookAt mono.Time
	apart  mono.Time     // until then a neighbour is taken to compute
	pause  time.Duration // how long apart was the latest time
	budget time.Duration // for how long to spin
	first  time.Duration // ... after a silence, if that is less
	wake   time.Duration // what a wake-up costs
	trial  trial         // of spinning longer

	switches uint64 // as of the latest look
	counts   Counts
}

// Counts are what a policy has decided.
type Counts struct {
	Sleeps  uint64 // sleeps
	Vain    uint64 // sleeps that ended before their time, with nothing to be found
	Yields  uint64 // yields, as Yielded was told of them
	Crowded uint64 // times that the processor was found to be shared
	Apart   uint64 // times that a neighbour was found to compute, to whom nothing is yielded
}

// Add adds what another policy has decided.
func (c *Counts) Add(o Counts) {
	c.Sleeps += o.Sleeps
	c.Vain += o.Vain
	c.Yields += o.Yields
	c.Crowded += o.Crowded
	c.Apart += o.Apart
}

// New returns the policy of a thread whose search begins at now. spin is for how long Adaptive
// spins; 0 has it learned.
func New(mode Mode, spin time.Duration, thread Thread, now mono.Time) *Policy {
	p := &Policy{
		mode: mode, fixed: spin > 0, thread: thread, since: now, lookAt: now.Add(lookEvery),
		budget: spin, wake: wakeFirst, switches: thread.Switches(), shared: thread.Crowded(),
		trial: trial{every: trialEvery},
	}
	if p.shared {
		p.counts.Crowded++
	}
	if !p.fixed {
		p.budget, p.first = wakeFirst, wakeFirst
	}
	return p
}

// Begin notes that a search begins now, after something else than searching.
func (p *Policy) Begin(now mono.Time) {
	p.cold = now.Sub(p.since) >= silence
	p.since, p.slept, p.probed = now, false, false
}

// Found notes that a search ended with something found.
func (p *Policy) Found(now mono.Time) {
	if !p.fixed && p.mode == Adaptive {
		p.learn(now.Sub(p.since))
	}
	if p.probed && !p.slept { // by one that needed this processor
		p.probes = 0
		p.shared, p.yields, p.switches = true, 0, p.thread.Switches()
		p.counts.Crowded++
	}
	p.since, p.slept, p.probed, p.cold = now, false, false, false
	if p.lookAt < now.Add(lookEvery) {
		p.lookAt = now.Add(lookEvery)
	}
}

// learn draws its conclusions from the pause between two finds. A sleep shows a pause longer than
// it was, by about what a wake-up costs.
func (p *Policy) learn(pause time.Duration) {
	if pause >= silence && p.slept {
		p.calm = min(p.calm+1, calmLeast)
	} else {
		p.calm = 0
	}
	switch {
	case p.cold:
		p.learnCold(pause, p.slept)
	case p.trial.left > 0:
		if p.trial.found(pause, p.budget) {
			p.budget = p.budgetMost()
		} else {
			p.budget = min(p.budget, p.budgetMost())
		}
	case p.slept:
		p.learnLate(pause)
	default:
		p.trial.spunThrough()
		if 2*pause > p.budget { // it was a near thing
			p.budget = min(2*pause, p.budgetMost())
		}
	}
}

// learnCold is learn of the first pause after a silence. Whoever is to end it most probably
// sleeps, which says nothing of the pauses that follow each other, nor they of it: where his
// wake-up makes it a near thing each time, it is in vain to spin longer.
func (p *Policy) learnCold(pause time.Duration, slept bool) {
	most := p.budgetMost()
	switch {
	case !slept:
		p.near = 0
		p.first = min(max(p.first, 2*pause), most)
	case pause > 2*most:
		p.first = max(p.first/2, spinLeast)
	default:
		p.first = most
		if p.near++; rare(p.near) {
			p.first = spinLeast
		}
	}
}

// rare says whether the try of a number, of those in a row that were in vain, is to be left out.
func rare(number uint) bool { return number%rareEvery > rareLeast }

// Calm says that a search that begins now is most probably in vain: all of late have been slept
// through, for much longer than it is worth to search. So who has just found something, and knows
// that there is nothing else, may sleep without another look, if the sleep ends by what has come
// meanwhile.
func (p *Policy) Calm() bool {
	return p.mode == Event || p.mode == Adaptive && !p.fixed && p.calm >= calmLeast
}

// budgetMost is the longest time to spin: what a sleep costs.
func (p *Policy) budgetMost() time.Duration { return max(p.wake, p.trial.cost) }

// learnLate is learn of a pause that was not spun through.
func (p *Policy) learnLate(pause time.Duration) {
	if most := p.budgetMost(); pause <= 2*most { // a little longer, and it had been caught
		p.budget = most
	} else {
		p.budget = max(p.budget-p.budget>>learnLog2, spinLeast)
	}
	p.trial.slept(pause)
}

// Since is when the search that goes on has begun.
func (p *Policy) Since() mono.Time { return p.since }

// Late notes that another thread has found what this one has searched for in vain, so long after
// the search had begun.
func (p *Policy) Late(pause time.Duration) {
	switch {
	case p.fixed || p.mode != Adaptive:
	case p.cold:
		p.learnCold(pause, true)
	default:
		p.learnLate(pause)
	}
}

// Empty says what to do after a search in vain.
func (p *Policy) Empty(now mono.Time) Action {
	if p.mode == Event {
		return Sleep
	}
	if p.mode == Adaptive && now.Sub(p.since) >= p.budgetAt(now) {
		if p.probed || p.shared || p.slept || now < p.apart {
			return Sleep
		}
		if p.probes++; rare(p.probes) {
			return Sleep
		}
		// One who spins just until it sleeps is never preempted. So it yields once: if that helps, it
		// has kept the one that it waits for from running.
		p.probed = true
		return Yield
	}
	if p.shared && p.MayYield(now) {
		if p.yields++; p.yields >= yieldsLook {
			p.lookShared()
		}
		return Yield
	}
	if now >= p.lookAt {
		p.lookAlone(now)
	}
	return Poll
}

// MayYield says whether a yield comes back soon: whether no neighbour is known to compute. Go's
// own goroutines must have their turn in any case.
func (p *Policy) MayYield(now mono.Time) bool { return now >= p.apart || p.thread.Crowded() }

// AmongFriends says that more threads of one job wait than there are processors for them. Who has
// the processor after a yield is one of them, mostly, also after a long one: one that does not
// yield to it is in its way, and makes the yields of the others long.
func (p *Policy) AmongFriends() { p.friend = true }

// Yielded notes that a yield has ended at now, which took so long. A neighbour to whom the kernel
// gives a whole slice each time computes: on Linux a thread that yields within one scheduling group
// (a session, a container, a job step) has the processor again when that slice is over.
func (p *Policy) Yielded(now mono.Time, took time.Duration) {
	p.counts.Yields++
	if p.friend {
		return
	}
	if p.long++; took < yieldLong {
		p.long = 0
	}
	switch {
	case p.long >= yieldsLong || p.long > 0 && p.pause > 0:
		p.pause = min(max(2*p.pause, apartLeast), apartMost)
		p.apart = now.Add(p.pause)
		p.counts.Apart++
	case p.long == 0 && p.pause > 0 && now >= p.apart:
		p.pause /= 2
	}
}

// lookAlone asks whether the thread was preempted of late.
func (p *Policy) lookAlone(now mono.Time) {
	p.lookAt = now.Add(lookEvery)
	n := p.thread.Switches()
	if n != p.switches || p.thread.Crowded() {
		p.shared, p.yields = true, 0
		p.counts.Crowded++
	}
	p.switches = n
}

// lookShared asks whether others have run while this thread yielded.
func (p *Policy) lookShared() {
	n := p.thread.Switches()
	p.shared, p.yields = n-p.switches >= yieldsTaken || p.thread.Crowded(), 0
	p.switches = n
}

// SleepMin is the shortest sleep that is worth it: for less, look again.
func (p *Policy) SleepMin() time.Duration {
	if p.mode == Event {
		return 0
	}
	return p.wake
}

// Slept notes a sleep that took so long, of at most asked (negative: no limit), slack of which
// the system may add by its own rules.
func (p *Policy) Slept(asked, took, slack time.Duration) {
	p.counts.Sleeps++
	p.slept = true
	if late := took - asked - slack; asked >= 0 && late > -slack {
		late = min(max(late, wakeLeast), wakeMost)
		p.wake += (late - p.wake) / (1 << learnLog2)
		if !p.fixed {
			p.budget = min(p.budget, p.budgetMost())
		}
	}
}

// InVain notes that the sleep before ended early, and that there was nothing.
func (p *Policy) InVain() { p.counts.Vain++ }

// Counts returns what was decided so far.
func (p *Policy) Counts() Counts { return p.counts }

// budgetAt is Budget at an instant. Beside a neighbour nobody yields, and who spins there is in the
// way of others of its own kind, whose yields it makes long: it spins for no more than a wake-up.
func (p *Policy) budgetAt(now mono.Time) time.Duration {
	if now < p.apart {
		return min(p.Budget(), p.wake)
	}
	return p.Budget()
}

// Budget is for how long Adaptive spins now, if no neighbour computes.
func (p *Policy) Budget() time.Duration {
	if p.cold && !p.fixed {
		return min(p.first, p.budget)
	}
	if p.trial.left > 0 {
		return trialMost
	}
	return p.budget
}
