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

// ParseMode returns the mode with the given name, which is "busy", "adaptive" or "event".
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

// Thread gives a Policy information from the kernel and the process about the waiting thread.
type Thread interface {
	// Switches returns the number of involuntary context switches of the thread. The number includes
	// yields that let a different thread run.
	Switches() uint64
	// Stolen returns the CPU time, in any unit, that the host has taken from all CPUs of this virtual
	// machine, or 0 if this time is unknown.
	Stolen() uint64
	// Crowded reports whether at least GOMAXPROCS threads of this process are waiting under the
	// control of a Policy.
	Crowded() bool
	// Yield lets a different thread run, if a thread waits for this CPU.
	Yield()
}

const (
	// wakeFirst is the duration of a wake-up that a policy assumes before its first measurement.
	// wakeLeast and wakeMost are the lower and the upper bound to which a policy limits the measured
	// duration of a wake-up.
	wakeFirst = 40 * time.Microsecond
	wakeLeast = 20 * time.Microsecond
	wakeMost  = 60 * time.Microsecond
	// The duration spinLeast is long enough for the next packets of the same message to arrive. The
	// duration of longSpin wake-ups is long enough for the peer's thread to wake up and do its work.
	spinLeast = 4 * time.Microsecond
	longSpin  = 4
	// A thread that shares its CPU with a computing thread spins for at most the time of besideSpin
	// wake-ups. The time of besideSpin wake-ups is long enough for the wake-up of a sleeping peer, and
	// for the peer's answer.
	besideSpin = 2
	// After more than rareLeast consecutive failures of an action, such as a yield that lets no thread
	// run, the policy tries the action only in one of rareEvery cases.
	rareLeast = 2
	rareEvery = 64
	// While a thread polls, its policy checks the number of preemptions once in each interval
	// lookEvery. If a check is late by at least gapLeast, or a yield takes at least gapLeast, the
	// policy concludes that a different thread, or the host of the virtual machine, has used the CPU.
	lookEvery = 100 * time.Microsecond
	gapLeast  = time.Millisecond
	// After each series of yieldsLook yields, the policy checks whether at least yieldsTaken of these
	// yields let a different thread run.
	yieldsLook  = 64
	yieldsTaken = 4
	// After yieldsLong consecutive long yields, the state Beside lasts for the duration besideFor.
	// After a single long yield, for example because a thread with low priority got one time slice,
	// the state Beside lasts only for the duration stolenFor.
	yieldsLong = 2
	// The state Beside ends after the duration besideFor, or stolenFor if it began with a single long
	// yield. The state Stolen ends after the duration stolenFor. The policy reads the stolen CPU time
	// at most once in each interval stolenFor.
	besideFor = time.Second
	stolenFor = 100 * time.Millisecond
	// A thread of an oversubscribed job (see AmongFriends) yields for the duration friendsFor before
	// it sleeps. Each yield in the time friendsFor lets a different thread of the job run, which
	// possibly does the work for which this thread waits. The state Beside of a thread of an
	// oversubscribed job begins after friendsLong consecutive long yields, because a yield is
	// sometimes long although no computing thread shares the CPU.
	friendsFor  = 3 * time.Millisecond
	friendsLong = 6
)

// Policy decides how one thread waits. New makes a Policy.
type Policy struct {
	mode     Mode
	fixed    bool    // the caller has set the spinning time
	slept    bool    // the thread has slept since it last found work
	shared   bool    // other threads want the processor
	friend   bool    // threads of the same job share the CPUs: see AmongFriends
	taken    bool    // the host of this virtual machine is the reason for apart
	probed   bool    // the thread has yielded once before a sleep
	yields   int     // since the latest look
	long     int     // long yields in a row
	probes   uint    // consecutive yields before a sleep, none of which found work
	vain     [3]uint // for each spinning time: consecutive waits that were longer
	thread   Thread
	since    mono.Time     // of the latest find
	lookAt   mono.Time     // of the next look
	apart    mono.Time     // the end of the state Beside or Stolen
	budget   time.Duration // time to spin before a sleep
	wake     time.Duration // cost of a wake-up
	switches uint64        // preemptions at the latest look
	stolen   uint64        // stolen time at the latest gap, 0 before the first
	stolenAt mono.Time     // of the next query of the stolen time
	counts   Counts
}

// Counts holds the number of decisions of each kind that a policy has made, and the present state
// of the policy.
type Counts struct {
	Sleeps  uint64 // sleeps
	Yields  uint64 // yields reported by Yielded
	Crowded uint64 // times that another thread was found to use the processor
	Apart   uint64 // times that yielding stopped because another thread computes
	Stolen  uint64 // times that the host of a virtual machine was found to take the CPU away
	State   State  // the present state
}

// Add adds the counts o, which come from a different policy, to c. The field State of c becomes the
// higher of c.State and o.State.
func (c *Counts) Add(o Counts) {
	c.State = max(c.State, o.State)
	c.Sleeps += o.Sleeps
	c.Yields += o.Yields
	c.Crowded += o.Crowded
	c.Apart += o.Apart
	c.Stolen += o.Stolen
}

// New returns the policy of a thread that begins to poll at the time "now". The argument "spin" of
// New is the time for which a thread in the mode Adaptive polls before it sleeps. If "spin" is 0,
// the policy adapts the spinning time to its measurements.
func New(mode Mode, spin time.Duration, thread Thread, now mono.Time) *Policy {
	p := &Policy{
		mode: mode, fixed: spin > 0 || mode != Adaptive, thread: thread, since: now,
		lookAt: now.Add(lookEvery), budget: spin, wake: wakeFirst, switches: thread.Switches(),
	}
	if !p.fixed {
		p.vain[len(p.vain)-1] = rareLeast + 1 // spins for one wake-up at first
		p.budget = wakeFirst
	}
	p.share(thread.Crowded())
	return p
}

// The method "share" begins or ends the state Shared.
func (p *Policy) share(shared bool) {
	if p.yields = 0; shared && !p.shared {
		p.counts.Crowded++
	}
	p.shared = shared
}

// Begin records that the thread begins to wait for work at the time "now", after a time in which it
// has not polled.
func (p *Policy) Begin(now mono.Time) {
	p.since, p.slept, p.probed = now, false, false
	p.lookAt = max(p.lookAt, now) // other work is no gap
}

// Found records that a poll has found work, which ends the present wait.
func (p *Policy) Found(now mono.Time) {
	p.Late(now.Sub(p.since))
	if p.probed && !p.slept { // another thread needed this processor to make the work
		p.probes, p.switches = 0, p.thread.Switches()
		p.share(true)
	}
	p.Begin(now)
	p.lookAt = max(p.lookAt, now.Add(lookEvery))
}

// Late records that a different thread has found the work for which this thread was polling. The
// argument "wait" of Late is the time from the beginning of this thread's wait until the work was
// found. For each possible spinning time, Late counts the consecutive waits that were longer than
// this spinning time. Late sets only one count to zero, which is the count of the shortest spinning
// time that would have sufficed for the wait.
func (p *Policy) Late(wait time.Duration) {
	if p.fixed {
		return
	}
	p.budget = 0
	shorter := time.Duration(-1)
	for i, spin := range [len(p.vain)]time.Duration{spinLeast, p.wake, longSpin * p.wake} {
		if wait > spin {
			p.vain[i]++
		} else if wait > shorter {
			p.vain[i] = 0
		}
		if !rare(p.vain[i]) {
			p.budget = spin
		}
		shorter = spin
	}
}

// The function "rare" reports whether the policy should skip the next attempt of an action after
// the given number of consecutive failures of this action.
func rare(number uint) bool { return number > rareLeast && number%rareEvery != 0 }

// Calm reports whether a thread that has just found work should sleep at once without spinning.
// Calm returns true in the mode Event, and in the mode Adaptive if every spinning time was too
// short for the latest waits. The caller must make sure that work which arrives before the sleep
// wakes the thread.
func (p *Policy) Calm() bool {
	return p.mode == Event || p.mode == Adaptive && p.budget == 0
}

// Since returns the time at which the thread began its present wait for work.
func (p *Policy) Since() mono.Time { return p.since }

// Empty returns the thread's next action after a poll that found no work.
func (p *Policy) Empty(now mono.Time) Action {
	if p.mode == Event {
		return Sleep
	}
	if now >= p.lookAt && !p.shared {
		p.look(now)
	}
	if p.mode == Adaptive && now.Sub(p.since) >= p.spin(now) {
		if p.probed || p.shared || p.slept || now < p.apart {
			return Sleep
		}
		if p.probes++; rare(p.probes) {
			return Sleep
		}
		p.probed = true
		return Yield
	}
	if !p.shared || !p.MayYield(now) {
		return Poll
	}
	if p.yields++; p.yields >= yieldsLook {
		before := p.switches
		p.switches, p.lookAt = p.thread.Switches(), now.Add(lookEvery)
		p.share(p.switches-before >= yieldsTaken || p.thread.Crowded())
	}
	return Yield
}

// The method "spin" returns the time for which the thread polls or yields before it sleeps.
func (p *Policy) spin(now mono.Time) time.Duration {
	switch beside := now < p.apart; {
	case beside && p.friend: // polling would delay the other threads of the job
		return min(p.budget, spinLeast)
	case beside:
		return min(p.budget, besideSpin*p.wake)
	case p.friend && p.shared:
		return max(p.budget, friendsFor)
	}
	return p.budget
}

// The method "look" checks whether the thread was preempted between the previous call of the method
// "look" and this call. If the thread did not run for a while although it was not preempted, the
// method "look" checks whether the host of the virtual machine has used the CPU. The first reading
// of the stolen CPU time has no effect, because the host might have stolen this CPU time long ago.
func (p *Policy) look(now mono.Time) {
	gap := now.Sub(p.lookAt) >= gapLeast
	p.lookAt = now.Add(lookEvery)
	switches, stolen := p.switches, p.stolen
	if p.switches = p.thread.Switches(); p.switches != switches || p.thread.Crowded() {
		p.share(true)
	} else if gap && now >= p.stolenAt {
		p.stolenAt = now.Add(stolenFor)
		if p.stolen = p.thread.Stolen(); stolen == 0 || p.stolen <= stolen {
			return
		}
		if p.counts.Stolen++; !p.friend && now >= p.apart {
			p.apart, p.taken = now.Add(stolenFor), true
		}
	}
}

// MayYield reports whether the policy expects a yield to return soon. MayYield returns true unless
// the policy has found that a different thread, or the host of the virtual machine, uses this CPU.
// In a crowded process (see Thread.Crowded), MayYield always returns true, because waiting
// goroutines of the process need the CPU.
func (p *Policy) MayYield(now mono.Time) bool { return now >= p.apart || p.thread.Crowded() }

// AmongFriends tells the policy that this thread belongs to an oversubscribed job, in which more
// threads wait on the CPUs of this thread than these CPUs can run at a time. In an oversubscribed
// job, a yield lets a different thread of the job run, and rarely takes longer than gapLeast.
func (p *Policy) AmongFriends() { p.friend = true }

// Yielded records a yield that ended at the time "now" and had the duration "took". A yield that
// takes a whole time slice shows that a different thread computes on this CPU. After one long yield
// (of at least gapLeast), the thread does not yield for the time stolenFor, and after yieldsLong
// consecutive long yields, it does not yield for the time besideFor. With AmongFriends, the first
// friendsLong-1 consecutive long yields have no effect. With AmongFriends in the mode Busy, no long
// yield has an effect, because the threads of the job would otherwise poll on the same CPU for the
// time besideFor.
func (p *Policy) Yielded(now mono.Time, took time.Duration) {
	p.counts.Yields++
	p.lookAt = p.lookAt.Add(took)
	if took < gapLeast {
		p.long = 0
		return
	}
	if p.long++; p.friend && (p.long < friendsLong || p.mode == Busy) {
		return
	}
	apart := stolenFor
	if p.long >= yieldsLong {
		apart = besideFor
	}
	if now >= p.apart {
		p.counts.Apart++
	}
	p.apart, p.taken = max(p.apart, now.Add(apart)), false
}

// SleepMin returns the shortest useful duration of a sleep. If a polling loop could sleep only for
// less than SleepMin, it should poll again instead.
func (p *Policy) SleepMin() time.Duration {
	if p.mode == Event {
		return 0
	}
	return p.wake
}

// Slept records a sleep. The argument "took" of Slept is the actual duration of the sleep. The
// argument "asked" of Slept is the requested duration, or a negative value if no limit was
// requested. The argument "slack" of Slept is the kernel's timer slack, which is the largest time
// by which the kernel lengthens a sleep.
func (p *Policy) Slept(asked, took, slack time.Duration) {
	p.counts.Sleeps++
	p.slept = true
	p.lookAt = p.lookAt.Add(took)
	if late := took - asked - slack; asked >= 0 && late > -slack {
		late = min(max(late, wakeLeast), wakeMost)
		p.wake += (late - p.wake) / 8
	}
}

// Counts returns the number of decisions of each kind that the policy has made, and the policy's
// present state.
func (p *Policy) Counts() Counts {
	c := p.counts
	switch {
	case p.apart > p.lookAt && p.taken:
		c.State = Stolen
	case p.apart > p.lookAt:
		c.State = Beside
	case p.shared:
		c.State = Shared
	}
	return c
}
