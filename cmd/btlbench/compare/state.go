package compare

import (
	"context"
	"slices"
	"time"
)

// On a virtual machine two CPUs may be threads of one core in one second, cores that share a cache
// in the next, and far apart in a third; figures of different states say nothing together. So the
// time from CPU to CPU is taken before and after each measurement, and what was not measured in the
// state that the machine is in most of the time is measured again, every system alike.
const (
	stateSamples  = 40                    // taken to find the usual state
	stateEvery    = 25 * time.Millisecond // between two of them
	statePatience = 3 * time.Second       // to wait for the usual state before a measurement
	stateTriesMax = 4                     // measurements until one is kept as it is
	// From where to where a time is of the usual state, by the usual time.
	stateLowRatio, stateHighRatio = .7, 1.5
)

// machineState finds out and watches how far apart the two CPUs are.
type machineState struct {
	ping    func() float64 // ns from CPU to CPU now; nil where that is not known
	usualNs float64
	sleep   func(context.Context, time.Duration)
}

// newMachineState learns the usual state, for a second. A ping that knows nothing switches it off.
func newMachineState(ctx context.Context, ping func() float64,
	sleep func(context.Context, time.Duration),
) *machineState {
	m := &machineState{ping: ping, sleep: sleep}
	if ping == nil {
		return m
	}
	var all []float64
	for range stateSamples {
		all = append(all, ping())
		sleep(ctx, stateEvery)
	}
	slices.Sort(all)
	m.usualNs = all[len(all)/2]
	if m.usualNs == 0 {
		m.ping = nil
	}
	return m
}

// usual says whether ns is of the usual state.
func (m *machineState) usual(ns float64) bool {
	return ns >= stateLowRatio*m.usualNs && ns <= stateHighRatio*m.usualNs
}

// await waits a bounded time for the usual state, and returns the last time from CPU to CPU.
func (m *machineState) await(ctx context.Context) float64 {
	ns, waited := m.ping(), time.Duration(0)
	for ; !m.usual(ns) && waited < statePatience && ctx.Err() == nil; waited += stateEvery {
		m.sleep(ctx, stateEvery)
		ns = m.ping()
	}
	return ns
}

// measured runs measure until the state was the usual one before and after it, a bounded number of
// times. It returns the larger of the two times around the last run, 0 when they are not known.
func (m *machineState) measured(ctx context.Context, measure func() error) (float64, error) {
	if m.ping == nil {
		return 0, measure()
	}
	for try := 1; ; try++ {
		before := m.await(ctx)
		err := measure()
		after := m.ping()
		if err != nil || try == stateTriesMax || m.usual(before) && m.usual(after) {
			return max(before, after), err
		}
	}
}

// sleepFor sleeps until d is over or ctx ends.
func sleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
