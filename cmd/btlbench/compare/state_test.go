package compare

import (
	"context"
	"errors"
	"testing"
	"time"
)

// pings returns a ping that tells usual while the state is learned, then times, the last for good.
func pings(usual float64, times ...float64) func() float64 {
	calls := 0
	return func() float64 {
		calls++
		if calls <= stateSamples {
			return usual
		}
		return times[min(calls-stateSamples, len(times))-1]
	}
}

func TestMachineState(t *testing.T) {
	failed := errors.New("failed")
	far := make([]float64, 1000)
	for i := range far {
		far[i] = 280
	}
	for name, c := range map[string]struct {
		ping  func() float64
		err   error
		runs  int
		ns    float64
		slept time.Duration // beside the learning
	}{
		"usual":              {pings(50, 55, 48), nil, 1, 55, 0},
		"waits":              {pings(50, 280, 23, 50, 51), nil, 1, 51, 2 * stateEvery},
		"changed meanwhile":  {pings(50, 50, 280, 50, 52), nil, 2, 52, 0},
		"changed all along":  {pings(50, 50, 280, 50, 280, 50, 280, 50, 280), nil, stateTriesMax, 280, 0},
		"never again":        {pings(50, far...), nil, stateTriesMax, 280, stateTriesMax * statePatience},
		"an error is an end": {pings(50, 50, 280), failed, 1, 280, 0},
		"no ping":            {nil, nil, 1, 0, 0},
		"ping knows nothing": {func() float64 { return 0 }, nil, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var slept time.Duration
			sleep := func(_ context.Context, d time.Duration) { slept += d }
			state := newMachineState(t.Context(), c.ping, sleep)
			slept = 0
			runs := 0
			ns, err := state.measured(t.Context(), func() error { runs++; return c.err })
			if runs != c.runs || ns != c.ns || !errors.Is(err, c.err) || slept != c.slept {
				t.Errorf("%d runs, %.0f ns, slept %v, %v; want %d, %.0f, %v, %v",
					runs, ns, slept, err, c.runs, c.ns, c.slept, c.err)
			}
		})
	}
}

func TestMachineStateEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	state := newMachineState(ctx, pings(50, 280), func(context.Context, time.Duration) { cancel() })
	if ns := state.await(ctx); ns != 280 {
		t.Errorf("%.0f ns", ns)
	}
}
