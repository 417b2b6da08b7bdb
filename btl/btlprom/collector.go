package btlprom

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"gobtl/btl"
)

// Collector is a prometheus.Collector for the counters of one module, or of all links of a Node. A
// Collector must be registered only once with each registry. If one registry has several
// Collectors, the labels of the Collectors must differ.
type Collector struct {
	snapshots func() map[string]btl.Stats // by the value of the label "link"
	links     bool                        // the metrics have the label "link"
	counters  []counterDesc
	gauges    []gaugeDesc
}

var _ prometheus.Collector = (*Collector)(nil)

type counterDesc struct {
	counter btl.Counter
	desc    *prometheus.Desc
	labels  []string // values of the desc's variable labels
}

type gaugeDesc struct {
	desc  *prometheus.Desc
	value func(*btl.Stats) uint64
}

// NewCollector returns a collector that calls the function "snapshot" at every scrape, on the
// goroutine of the scrape. Every exported metric has the given labels, which may be nil. LabelValue
// converts a text to a valid label value.
func NewCollector(snapshot func() btl.Stats, labels prometheus.Labels) *Collector {
	return newCollector(&Collector{
		snapshots: func() map[string]btl.Stats { return map[string]btl.Stats{"": snapshot()} },
	}, labels)
}

// NewNodeCollector returns a collector for all links of a Node of package gobtl, including links
// that the Node opens later. The argument "snapshots" must be the Node's method Stats. Every
// exported metric has the label "link", whose value is the address of the link, in addition to the
// given labels.
func NewNodeCollector(
	snapshots func() map[string]btl.Stats, labels prometheus.Labels,
) *Collector {
	return newCollector(&Collector{snapshots: snapshots, links: true}, labels)
}

// newCollector creates the Prometheus descriptions of all metrics of a Collector.
func newCollector(c *Collector, labels prometheus.Labels) *Collector {
	labels = maps.Clone(labels)
	for name, value := range labels {
		labels[name] = LabelValue(value)
	}
	var own []string
	if c.links {
		own = []string{"link"}
	}
	descs := make(map[string]*prometheus.Desc)
	for _, counter := range btl.Counters() {
		name, value := counter.Label()
		names, values := own, []string(nil)
		if name != "" {
			names, values = append(slices.Clone(own), name), []string{value}
		}
		metric := counter.Metric()
		if descs[metric] == nil {
			descs[metric] = prometheus.NewDesc(metric, counter.Help(), names, labels)
		}
		c.counters = append(c.counters, counterDesc{counter, descs[metric], values})
	}
	for _, g := range []struct {
		name, help string
		value      func(*btl.Stats) uint64
	}{
		{
			"gobtl_endpoints", "Endpoints open, also those being connected or closed.",
			func(s *btl.Stats) uint64 { return s.Endpoints },
		},
		{
			"gobtl_packets_in_flight", "Packets sent and not acknowledged, to all peers.",
			func(s *btl.Stats) uint64 { return s.InFlight },
		},
		{
			"gobtl_send_buffers_free", "Packet buffers free for sending.",
			func(s *btl.Stats) uint64 { return s.SendBuffersFree },
		},
		{
			"gobtl_credits_granted", "Packets that peers may have on their way here, all together.",
			func(s *btl.Stats) uint64 { return s.CreditsGranted },
		},
	} {
		desc := prometheus.NewDesc(g.name, g.help, own, labels)
		c.gauges = append(c.gauges, gaugeDesc{desc, g.value})
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	sent := make(map[*prometheus.Desc]bool)
	for _, d := range c.counters {
		if !sent[d.desc] {
			sent[d.desc] = true
			ch <- d.desc
		}
	}
	for _, g := range c.gauges {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for link, s := range c.snapshots() {
		var own []string
		if c.links {
			own = []string{LabelValue(link)}
		}
		for _, d := range c.counters {
			ch <- prometheus.MustNewConstMetric(d.desc, prometheus.CounterValue,
				float64(s.Get(d.counter)), append(slices.Clone(own), d.labels...)...)
		}
		for _, g := range c.gauges {
			ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.value(&s)),
				own...)
		}
	}
}
