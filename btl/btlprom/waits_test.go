package btlprom_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gobtl/btl/btlprom"
	"gobtl/internal/waiting"
)

func TestWaits(t *testing.T) {
	counts := waiting.Counts{
		Sleeps: 5, Yields: 40, Crowded: 3, Apart: 2, Stolen: 4, State: waiting.Beside,
	}
	w := btlprom.NewWaits(func() waiting.Counts { return counts }, prometheus.Labels{"rank": "1"})
	if problems, err := testutil.CollectAndLint(w); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	const want = `
# HELP gobtl_wait_neighbours_total Times that yielding stopped because a neighbour computes.
# TYPE gobtl_wait_neighbours_total counter
gobtl_wait_neighbours_total{rank="1"} 2
# HELP gobtl_wait_preempted_total Times that the polling loop found that it shares its CPU.
# TYPE gobtl_wait_preempted_total counter
gobtl_wait_preempted_total{rank="1"} 3
# HELP gobtl_wait_sleeps_total Sleeps of the polling loop.
# TYPE gobtl_wait_sleeps_total counter
gobtl_wait_sleeps_total{rank="1"} 5
# HELP gobtl_wait_state What else wants the CPU of the polling loop: 1 for the state that holds.
# TYPE gobtl_wait_state gauge
gobtl_wait_state{rank="1",state="alone"} 0
gobtl_wait_state{rank="1",state="beside"} 1
gobtl_wait_state{rank="1",state="shared"} 0
gobtl_wait_state{rank="1",state="stolen"} 0
# HELP gobtl_wait_stolen_total Times that the host of this virtual machine took the CPU away.
# TYPE gobtl_wait_stolen_total counter
gobtl_wait_stolen_total{rank="1"} 4
# HELP gobtl_wait_yields_total Yields of the CPU to other threads.
# TYPE gobtl_wait_yields_total counter
gobtl_wait_yields_total{rank="1"} 40
`
	if err := testutil.CollectAndCompare(w, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
