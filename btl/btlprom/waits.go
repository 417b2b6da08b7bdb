package btlprom

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"gobtl/internal/waiting"
)

// Waits is a prometheus.Collector for the counters of sleeps and yields of polling goroutines. A
// Waits exports the counters that the method Runner.Waits, or World.Waits of package mpi, returns.
type Waits struct {
	snapshot func() waiting.Counts
	counters []waitsDesc
	state    *prometheus.Desc
}

var _ prometheus.Collector = (*Waits)(nil)

type waitsDesc struct {
	desc  *prometheus.Desc
	value func(*waiting.Counts) uint64
}

// NewWaits returns a collector that calls the function "snapshot" at every scrape, on the goroutine
// of the scrape. Every exported metric has the given labels, which may be nil. LabelValue converts
// a text to a valid label value.
func NewWaits(snapshot func() waiting.Counts, labels prometheus.Labels) *Waits {
	labels = maps.Clone(labels)
	for name, value := range labels {
		labels[name] = LabelValue(value)
	}
	w := &Waits{snapshot: snapshot, state: prometheus.NewDesc("gobtl_wait_state",
		"What else wants the CPU of the polling loop: 1 for the state that holds.",
		[]string{"state"}, labels)}
	for _, c := range []struct {
		name, help string
		value      func(*waiting.Counts) uint64
	}{
		{
			"gobtl_wait_sleeps_total", "Sleeps of the polling loop.",
			func(c *waiting.Counts) uint64 { return c.Sleeps },
		},
		{
			"gobtl_wait_yields_total", "Yields of the CPU to other threads.",
			func(c *waiting.Counts) uint64 { return c.Yields },
		},
		{
			"gobtl_wait_preempted_total", "Times that the polling loop found that it shares its CPU.",
			func(c *waiting.Counts) uint64 { return c.Crowded },
		},
		{
			"gobtl_wait_neighbours_total", "Times that yielding stopped because a neighbour computes.",
			func(c *waiting.Counts) uint64 { return c.Apart },
		},
		{
			"gobtl_wait_stolen_total", "Times that the host of this virtual machine took the CPU away.",
			func(c *waiting.Counts) uint64 { return c.Stolen },
		},
	} {
		desc := prometheus.NewDesc(c.name, c.help, nil, labels)
		w.counters = append(w.counters, waitsDesc{desc, c.value})
	}
	return w
}

// Describe implements prometheus.Collector.
func (w *Waits) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range w.counters {
		ch <- c.desc
	}
	ch <- w.state
}

// Collect implements prometheus.Collector.
func (w *Waits) Collect(ch chan<- prometheus.Metric) {
	counts := w.snapshot()
	for _, c := range w.counters {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.value(&counts)))
	}
	for s := range waiting.States {
		value := 0.0
		if s == counts.State {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(w.state, prometheus.GaugeValue, value, s.String())
	}
}
