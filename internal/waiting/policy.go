package waiting

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// Mode is the way in which a thread waits for work.
type Mode uint8

// The modes.
const (
	Adaptive Mode = iota // spin for as long as a wake-up costs, then sleep
	Busy                 // always spin: lowest latency, takes a whole processor
	Event                // always sleep: least processor time, one wake-up per find
)

var modeNames = [...]string{Adaptive: "adaptive", Busy: "busy", Event: "event"}

// String returns the mode's name.
func (m Mode) String() string {
	if int(m) >= len(modeNames) {
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
	return modeNames[m]
}

// ParseMode returns the mode with the given name, which is busy, adaptive or event.
func ParseMode(name string) (Mode, error) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), nil
		}
	}
	return 0, fmt.Errorf("waiting: %q is not busy, adaptive or event", name)
}

// Action is the decision of a Policy after a poll that found no work.
type Action uint8

// The actions.
const (
	Poll  Action = iota // look again at once
	Yield               // yield the processor, then look again
	Sleep               // sleep until something happens, then call Slept
)

// Thread returns what the kernel and the process know of the waiting thread.
type Thread interface {
	// Switches returns the number of involuntary context switches of the thread, including yields
	// that let another thread run.
	Switches() uint64
	// Crowded reports whether at least as many threads of this process wait as the process may
	// use CPUs.
	Crowded() bool
}

const (
	// wakeFirst is the assumed cost of a wake-up before the first measurement. wakeLeast and
	// wakeMost are the limits of the measured cost of a wake-up.
	wakeFirst = 40 * time.Microsecond
	wakeLeast = 20 * time.Microsecond
	wakeMost  = 60 * time.Microsecond
	// spinLeast is the spinning time after spinning has failed many times in a row. The spinning
	// time spinLeast suffices for the reply of a peer that is awake.
	spinLeast = 4 * time.Microsecond
	// silence is the shortest pause that counts as too long for spinning. After calmLeast
	// consecutive pauses of at least silence, the policy expects the next pause to be too long
	// for spinning.
	silence   = time.Millisecond
	calmLeast = 4
	// rareLeast is the number of consecutive failures after which an action is tried less often.
	// After rareLeast failures, the action is tried rareLeast+1 times in rareEvery opportunities.
	rareLeast = 2
	rareEvery = 64
	// learnLog2 is the weight of a new sample in a moving average, as a shift, so that the weight
	// is one eighth.
	learnLog2 = 3
	// lookEvery is the time between two queries of the number of preemptions while polls find no
	// work.
	lookEvery = 100 * time.Microsecond
	// yieldsLook is the number of yields after which the policy checks whether the yields let other
	// threads run.
	yieldsLook = 64
	// yieldsTaken is the number of yieldsLook yields that must have let another thread run, so
	// that the thread does not stop yielding.
	yieldsTaken = 4
	// yieldLong is the shortest duration of a yield that shows a computing thread, to which Linux
	// gives a whole time slice.
	yieldLong = time.Millisecond
	// yieldsLong is the number of consecutive long yields that show a computing thread. A single
	// long yield may have other causes, such as a time slice of another scheduling group.
	yieldsLong = 2
	// apartLeast is the first time for which the policy stops yielding because another thread
	// computes. The first yield after the time without yields shows whether the other thread
	// still computes. Each further yield that takes long doubles the time without yields, up to
	// apartMost.
	apartLeast = 100 * time.Millisecond
	apartMost  = 3200 * time.Millisecond
)

// Policy decides how one thread waits. New makes a Policy.
type Policy struct {
	mode   Mode
	fixed  bool // the caller has set the spinning time
	slept  bool // the thread has slept since it last found work
	shared bool // other threads want the processor
	friend bool // the other threads also wait: see AmongFriends
	probed bool // the thread has yielded once before a sleep
	cold   bool // the search began after a silence
	yields int  // since the latest look
	calm   int  // consecutive long pauses during which the thread slept, up to calmLeast
	probes uint // consecutive yields before a sleep, none of which found work
	near   uint // consecutive pauses after a silence that slightly more spinning would have avoided
	long   int  // long yields in a row
	thread Thread

	since  mono.Time // of the latest find
	lookAt mono.Time
	apart  mono.Time     // time until which another thread is assumed to compute
	pause  time.Duration // the latest time without yields
	budget time.Duration // time to spin before a sleep
	first  time.Duration // the same for the first pause after a silence, if shorter
	wake   time.Duration // cost of a wake-up
	trial  trial         // tests whether longer spinning pays

	switches uint64 // preemptions at the latest look
	counts   Counts
}

// Counts are the numbers of decisions of a policy, by their kind.
type Counts struct {
	Sleeps  uint64 // sleeps
	Vain    uint64 // sleeps that ended early without work
	Yields  uint64 // yields reported by Yielded
	Crowded uint64 // times that another thread was found to use the processor
	Apart   uint64 // times that yielding stopped because another thread computes

	State State // the present state
}

// Add adds the counts of another policy. The State of the sum is the greater one of the two States:
// Beside is greater than Shared, and Shared is greater than Alone.
func (c *Counts) Add(o Counts) {
	c.State = max(c.State, o.State)
	c.Sleeps += o.Sleeps
	c.Vain += o.Vain
	c.Yields += o.Yields
	c.Crowded += o.Crowded
	c.Apart += o.Apart
}

// New returns the policy of a thread that begins to poll at the time now. The argument spin of
// New is the spinning time of the mode Adaptive. If spin is 0, the policy adapts the spinning
// time to its measurements.
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

// Begin records that the thread begins to wait at the time now, after it has done something else.
func (p *Policy) Begin(now mono.Time) {
	p.cold = now.Sub(p.since) >= silence
	p.since, p.slept, p.probed = now, false, false
}

// Found records that the wait has ended because the thread found work.
func (p *Policy) Found(now mono.Time) {
	if !p.fixed && p.mode == Adaptive {
		p.learn(now.Sub(p.since))
	}
	if p.probed && !p.slept { // another thread needed this processor to make the work
		p.probes = 0
		p.shared, p.yields, p.switches = true, 0, p.thread.Switches()
		p.counts.Crowded++
	}
	p.since, p.slept, p.probed, p.cold = now, false, false, false
	if p.lookAt < now.Add(lookEvery) {
		p.lookAt = now.Add(lookEvery)
	}
}

// learn adapts the spinning time to the pause between two finds of work. If the thread slept, the
// pause appears longer by about the cost of a wake-up.
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
		if 2*pause > p.budget { // the spinning time was only just enough
			p.budget = min(2*pause, p.budgetMost())
		}
	}
}

// learnCold adapts the separate spinning time for the first pause after a silence.
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

// rare reports whether to skip an attempt after many failed attempts. The argument number of rare
// is the number of consecutive failed attempts.
func rare(number uint) bool { return number%rareEvery > rareLeast }

// Calm reports whether the next poll will most probably find no work. Calm returns true if the
// thread slept through all recent pauses, and all these pauses were too long for spinning. If
// Calm returns true and the arrival of work ends a sleep, a thread that has just found work may
// sleep without another poll.
func (p *Policy) Calm() bool {
	return p.mode == Event || p.mode == Adaptive && !p.fixed && p.calm >= calmLeast
}

// budgetMost returns the longest spinning time, which is the cost of a sleep.
func (p *Policy) budgetMost() time.Duration { return max(p.wake, p.trial.cost) }

// learnLate adapts the spinning time to a pause that was longer than the spinning time.
func (p *Policy) learnLate(pause time.Duration) {
	if most := p.budgetMost(); pause <= 2*most { // slightly more spinning would have sufficed
		p.budget = most
	} else {
		p.budget = max(p.budget-p.budget>>learnLog2, spinLeast)
	}
	p.trial.slept(pause)
}

// Since returns the time at which the present wait began.
func (p *Policy) Since() mono.Time { return p.since }

// Late records that another thread has found the work for which this thread has polled without
// success. The argument pause of Late is the time from the beginning of this thread's wait to the
// find.
func (p *Policy) Late(pause time.Duration) {
	switch {
	case p.fixed || p.mode != Adaptive:
	case p.cold:
		p.learnCold(pause, true)
	default:
		p.learnLate(pause)
	}
}

// Empty returns the next action after a poll that found no work.
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

// MayYield reports whether a yield is expected to return soon, because no other thread is known
// to compute. If the process is crowded, MayYield returns true, because the other goroutines must
// run.
func (p *Policy) MayYield(now mono.Time) bool { return now >= p.apart || p.thread.Crowded() }

// AmongFriends tells the policy that a job has more waiting threads than CPUs. In a job
// with more waiting threads than CPUs, the thread that runs after a yield usually belongs
// to the job, even if the yield takes long. If a job has more waiting threads than CPUs, a
// thread of the job that does not yield would delay the job.
func (p *Policy) AmongFriends() { p.friend = true }

// Yielded records that a yield of the duration took ended at the time now. If each yield takes a
// whole time slice, another thread on this CPU computes. On Linux, a thread that yields to a
// thread of the same scheduling group (a session, a container, a job step) waits until that
// thread's time slice is over.
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

// lookAlone checks whether the thread was preempted since the previous check.
func (p *Policy) lookAlone(now mono.Time) {
	p.lookAt = now.Add(lookEvery)
	n := p.thread.Switches()
	if n != p.switches || p.thread.Crowded() {
		p.shared, p.yields = true, 0
		p.counts.Crowded++
	}
	p.switches = n
}

// lookShared checks whether other threads ran while this thread yielded.
func (p *Policy) lookShared() {
	n := p.thread.Switches()
	p.shared, p.yields = n-p.switches >= yieldsTaken || p.thread.Crowded(), 0
	p.switches = n
}

// SleepMin returns the shortest useful sleep. A loop that may sleep only for less than SleepMin
// should poll again.
func (p *Policy) SleepMin() time.Duration {
	if p.mode == Event {
		return 0
	}
	return p.wake
}

// Slept records a sleep of the duration took. The argument asked of Slept is the requested duration
// of the sleep, and a negative value means no limit. The argument slack of Slept is the time by
// which the kernel may lengthen a sleep.
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

// InVain records that the latest sleep ended early, and that the thread found no work after the
// sleep.
func (p *Policy) InVain() { p.counts.Vain++ }

// Counts returns the numbers of the policy's decisions so far, and the present state.
func (p *Policy) Counts() Counts {
	c := p.counts
	c.State = p.state()
	return c
}

// budgetAt returns the spinning time at the time now. While yielding is off because another
// thread computes, the thread spins for no longer than a wake-up costs.
func (p *Policy) budgetAt(now mono.Time) time.Duration {
	if now < p.apart {
		return min(p.Budget(), p.wake)
	}
	return p.Budget()
}

// Budget returns the present spinning time of the mode Adaptive, if no other thread computes.
func (p *Policy) Budget() time.Duration {
	if p.cold && !p.fixed {
		return min(p.first, p.budget)
	}
	if p.trial.left > 0 {
		return trialMost
	}
	return p.budget
}
