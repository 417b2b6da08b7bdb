package compare

import (
	"context"
	"slices"
	"time"
)

// On a virtual machine, two CPUs may be threads of one core at one time, and far apart at another
// time, and measurements in different states cannot be compared. Before and after each measurement,
// the distance of the CPUs is measured, and measurements in an unusual state are repeated, for
// every system alike.
const (
	stateSamples  = 40                    // taken to find the usual state
	stateEvery    = 25 * time.Millisecond // between two of them
	statePatience = 3 * time.Second       // to wait for the usual state before a measurement
	stateTriesMax = 4                     // measurements until one is kept as it is
	// A distance between stateLowRatio and stateHighRatio of the usual distance counts as usual.
	stateLowRatio, stateHighRatio = .7, 1.5
)

// machineState measures the distance of the two CPUs and detects unusual distances.
type machineState struct {
	ping    func() float64 // ns from CPU to CPU now; nil where that is not known
	usualNs float64
	sleep   func(context.Context, time.Duration)
}

// newMachineState measures the usual distance for a second. If the distance is unknown,
// machineState does nothing.
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

// The method usual reports whether the distance ns belongs to the usual state of the machine.
func (m *machineState) usual(ns float64) bool {
	return ns >= stateLowRatio*m.usualNs && ns <= stateHighRatio*m.usualNs
}

// The method await waits a limited time for the usual state of the machine, and returns the last
// measured distance of the CPUs.
func (m *machineState) await(ctx context.Context) float64 {
	ns, waited := m.ping(), time.Duration(0)
	for ; !m.usual(ns) && waited < statePatience && ctx.Err() == nil; waited += stateEvery {
		m.sleep(ctx, stateEvery)
		ns = m.ping()
	}
	return ns
}

// The method measured calls the function measure until the distance of the CPUs was usual before
// and after the call, at most a limited number of times. The result of measured is the larger of
// the two distances around the last call, or 0 if the distances are unknown.
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

// sleepFor sleeps for the time d, or until ctx is cancelled.
func sleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
