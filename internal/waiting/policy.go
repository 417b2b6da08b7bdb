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

// Thread returns the information that the kernel and the process have about the waiting thread.
type Thread interface {
	// Switches returns the number of involuntary context switches of the thread. A yield that let
	// another thread run counts as an involuntary context switch.
	Switches() uint64
	// Stolen returns the CPU time, in any unit, that the host has taken from all CPUs of the
	// virtual machine. If this time is not known, Stolen returns 0.
	Stolen() uint64
	// Crowded reports whether the number of threads of this process that wait by a Policy is at
	// least the number of CPUs that the process may use.
	Crowded() bool
	// Yield lets another thread run that waits for this CPU.
	Yield()
}

const (
	// wakeFirst is the cost of a wake-up that is assumed until it has been measured. The constants
	// after wakeFirst limit the measured cost.
	wakeFirst = 40 * time.Microsecond
	wakeLeast = 20 * time.Microsecond
	wakeMost  = 60 * time.Microsecond
	// When spinning has found no work many times in a row, the spinning time is spinLeast. The time
	// spinLeast suffices for the reply of a peer that is awake.
	spinLeast = 4 * time.Microsecond
	// A pause of the duration silence or longer is too long for spinning in all cases, and is
	// called a silence. After calmLeast silences in a row, the policy expects another one.
	silence   = time.Millisecond
	calmLeast = 4
	// When an action has failed rareLeast times in a row, it is tried at rareLeast+1 of each
	// rareEvery opportunities.
	rareLeast = 2
	rareEvery = 64
	// longSpin is the longest spinning time, as a multiple of the cost of a wake-up. In the time
	// longSpin, a thread at the other end can wake up and do its work.
	longSpin = 4
	// learnLog2 is the weight of a new sample in a moving average, as a shift.
	learnLog2 = 3
	// A Policy reads the number of preemptions once in each interval lookEvery.
	lookEvery = 100 * time.Microsecond
	// After yieldsLook yields, the policy checks whether at least yieldsTaken of them let another
	// thread run.
	yieldsLook  = 64
	yieldsTaken = 4
	// If yieldsLong consecutive yields take yieldLong or longer, another thread on this CPU
	// computes. A single long yield may have another cause, such as a time slice of another
	// scheduling group.
	yieldLong  = time.Millisecond
	yieldsLong = 2
	// If at least gapLeast has passed between two polls, another thread or the host of the virtual
	// machine has used the CPU in the meantime.
	gapLeast = time.Millisecond
	// As long as nothing is known about stolen time, a Policy reads it once in each interval
	// stolenEvery.
	stolenEvery = time.Second
	// When another thread on the CPU computes, a waiting thread does not yield for the time
	// apartLeast at first, and later for longer times, up to apartMost.
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
	taken  bool // the host of this virtual machine is the reason for apart
	probed bool // the thread has yielded once before a sleep
	cold   bool // the search began after a silence
	yields int  // since the latest look
	calm   int  // consecutive long pauses during which the thread slept, up to calmLeast
	probes uint // consecutive yields before a sleep, none of which found work
	near   uint // consecutive pauses after a silence that slightly more spinning would have avoided
	long   int  // long yields in a row
	vain   uint // pauses slept through since long spinning has last avoided a sleep
	thread Thread

	since  mono.Time // of the latest find
	polled mono.Time // of the latest poll, 0 after a yield, a sleep or a look at a gap
	lookAt mono.Time
	apart  mono.Time     // the end of the state Beside or Stolen
	pause  time.Duration // the latest time without yields
	budget time.Duration // time to spin before a sleep
	first  time.Duration // the same for the first pause after a silence, if shorter
	wake   time.Duration // cost of a wake-up

	switches uint64    // preemptions at the latest look
	stolen   uint64    // stolen time at the latest gap, 0 before the first
	stolenAt mono.Time // of the next query of the stolen time, after an answer of 0
	counts   Counts
}

// Counts has the number of decisions that a policy has made, for each kind of decision.
type Counts struct {
	Sleeps  uint64 // sleeps
	Vain    uint64 // sleeps that ended early without work
	Yields  uint64 // yields reported by Yielded
	Crowded uint64 // times that another thread was found to use the processor
	Apart   uint64 // times that yielding stopped because another thread computes
	Stolen  uint64 // times that the host of a virtual machine was found to take the CPU away

	State State // the present state
}

// Add adds the counts of another policy. The State of the sum is the greater one of the two.
func (c *Counts) Add(o Counts) {
	c.State = max(c.State, o.State)
	c.Sleeps += o.Sleeps
	c.Vain += o.Vain
	c.Yields += o.Yields
	c.Crowded += o.Crowded
	c.Apart += o.Apart
	c.Stolen += o.Stolen
}

// New returns the policy of a thread that begins to poll at the time now. The argument spin of New
// is the spinning time of the mode Adaptive. If spin is 0, the spinning time is adapted to
// measurements.
func New(mode Mode, spin time.Duration, thread Thread, now mono.Time) *Policy {
	p := &Policy{
		mode: mode, fixed: spin > 0, thread: thread, since: now, lookAt: now.Add(lookEvery),
		budget: spin, wake: wakeFirst, switches: thread.Switches(), shared: thread.Crowded(),
		vain: rareLeast + 1,
	}
	if p.shared {
		p.counts.Crowded++
	}
	if !p.fixed {
		p.budget, p.first = wakeFirst, wakeFirst
	}
	return p
}

// Begin records that the thread, which has done other work until now, begins to wait at the time
// now.
func (p *Policy) Begin(now mono.Time) {
	p.cold = now.Sub(p.since) >= silence
	p.since, p.polled, p.slept, p.probed = now, now, false, false
}

// Found records that the present wait has ended, because a poll has found work.
func (p *Policy) Found(now mono.Time) {
	if !p.fixed && p.mode == Adaptive {
		p.learn(now.Sub(p.since))
	}
	if p.probed && !p.slept { // another thread needed this processor to make the work
		p.probes = 0
		p.shared, p.yields, p.switches = true, 0, p.thread.Switches()
		p.counts.Crowded++
	}
	p.since, p.polled, p.slept, p.probed, p.cold = now, now, false, false, false
	if p.lookAt < now.Add(lookEvery) {
		p.lookAt = now.Add(lookEvery)
	}
}

// The method learn adapts the spinning time to the pause between two polls that found work. If the
// thread slept during the pause, the pause appears longer by about the cost of a wake-up.
func (p *Policy) learn(pause time.Duration) {
	if pause >= silence && p.slept {
		p.calm = min(p.calm+1, calmLeast)
	} else {
		p.calm = 0
	}
	switch {
	case p.cold:
		p.learnCold(pause, p.slept)
	case p.slept:
		p.learnLate(pause)
	case pause > p.wake: // otherwise usual spinning would do, for example for a further packet
		p.vain = 0
	}
}

// learnCold adapts the separate spinning time for the first pause after a silence (a long pause).
func (p *Policy) learnCold(pause time.Duration, slept bool) {
	switch {
	case !slept:
		p.near = 0
		p.first = min(max(p.first, 2*pause), p.wake)
	case pause > 2*p.wake:
		p.first = max(p.first/2, spinLeast)
	default:
		p.first = p.wake
		if p.near++; rare(p.near) {
			p.first = spinLeast
		}
	}
}

// The function rare reports whether an attempt should be skipped, where number is the number of
// failures in a row.
func rare(number uint) bool { return number%rareEvery > rareLeast }

// Calm reports whether the next poll will most probably find no work, because all recent pauses
// were silences (long pauses) during which the thread slept. If Calm returns true, a thread that
// has just found work may sleep without another poll. The caller must make sure that the arrival of
// work ends a sleep without a poll.
func (p *Policy) Calm() bool {
	return p.mode == Event || p.mode == Adaptive && !p.fixed && p.calm >= calmLeast
}

// learnLate adapts the spinning time to a pause that was longer than the spinning time. A pause in
// which the threads at both ends sleep contains the other thread's wake-up, so its length does not
// tell whether spinning would pay. To find out whether spinning would pay, the thread spins for
// longer in some pauses (see longSpin). As long as the longer spinning avoids sleeps, the thread
// spins for longer in the following pauses, too.
func (p *Policy) learnLate(pause time.Duration) {
	p.vain++
	if pause <= 2*p.wake { // slightly more spinning would have sufficed
		p.budget = p.wake
	} else {
		p.budget = max(p.budget-p.budget>>learnLog2, spinLeast)
	}
}

// Since returns the time at which the present wait began.
func (p *Policy) Since() mono.Time { return p.since }

// Late records that another thread has found the work for which this thread has polled. The
// argument pause of Late is the time that has passed from the beginning of this thread's wait until
// then.
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
	gap := p.polled != 0 && now.Sub(p.polled) >= gapLeast
	if gap {
		p.lookGap(now)
	}
	action := p.choose(now)
	if p.polled = now; gap || action != Poll { // the look itself may take longer than gapLeast
		p.polled = 0
	}
	return action
}

func (p *Policy) choose(now mono.Time) Action {
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

// MayYield reports whether a yield is expected to return soon, because no other thread is known to
// compute. If the process is crowded (see Thread.Crowded), MayYield returns true, because the other
// goroutines must run.
func (p *Policy) MayYield(now mono.Time) bool { return now >= p.apart || p.thread.Crowded() }

// AmongFriends tells the policy that the job of this thread has more waiting threads than there are
// CPUs. Even if a yield takes long, the thread that runs in the meantime then usually belongs to
// the same job, and a thread that does not yield would delay the job.
func (p *Policy) AmongFriends() { p.friend = true }

// Yielded records that a yield of the duration took ended at the time now. If each of several
// yields takes a whole time slice, another thread on this CPU computes.
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
		p.apart, p.taken = now.Add(p.pause), false
		p.counts.Apart++
	case p.long == 0 && p.pause > 0 && now >= p.apart:
		p.pause /= 2
	}
}

// lookGap is called when much time has passed between two polls. If the kernel has not given the
// CPU to another thread between the two polls, lookGap checks whether the host of the virtual
// machine has taken the CPU away. The first stolen time that lookGap reads may be of an earlier
// time. Without a virtual machine the stolen time is always 0, and lookGap rarely reads it.
func (p *Policy) lookGap(now mono.Time) {
	if now < p.stolenAt || p.thread.Switches() != p.switches {
		return
	}
	before := p.stolen
	if p.stolen = p.thread.Stolen(); p.stolen == 0 {
		p.stolenAt = now.Add(stolenEvery)
	}
	if before == 0 || p.stolen <= before {
		return
	}
	p.counts.Stolen++
	if !p.friend && (now >= p.apart || p.taken) {
		p.apart, p.taken = now.Add(apartLeast), true
	}
}

// lookAlone checks whether the thread was preempted in the time after the previous check.
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

// SleepMin returns the shortest useful sleep. If a polling loop would sleep for a shorter time, it
// should poll again instead.
func (p *Policy) SleepMin() time.Duration {
	if p.mode == Event {
		return 0
	}
	return p.wake
}

// Slept records a sleep. The argument took of Slept is the duration of the sleep, and asked is the
// requested duration, where a negative value means no limit. The argument slack of Slept is the
// time by which the kernel may lengthen a sleep.
func (p *Policy) Slept(asked, took, slack time.Duration) {
	p.counts.Sleeps++
	p.slept = true
	if late := took - asked - slack; asked >= 0 && late > -slack {
		late = min(max(late, wakeLeast), wakeMost)
		p.wake += (late - p.wake) / (1 << learnLog2)
		if !p.fixed {
			p.budget = min(p.budget, p.wake)
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

// budgetAt returns the spinning time for a wait at the time now. In the states Beside and Stolen,
// the spinning time is at most the cost of a wake-up.
func (p *Policy) budgetAt(now mono.Time) time.Duration {
	if now < p.apart {
		return min(p.Budget(), p.wake)
	}
	return p.Budget()
}

// Budget returns the spinning time of the mode Adaptive in the states Alone and Shared. Long
// spinning is rare while it avoids no sleeps, and does not follow a silence.
func (p *Policy) Budget() time.Duration {
	if p.cold && !p.fixed {
		return min(p.first, p.budget)
	}
	if !p.fixed && p.calm == 0 && !rare(p.vain) {
		return longSpin * p.wake
	}
	return p.budget
}
