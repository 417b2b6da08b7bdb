// Package btlprom shows the counters of a btl.Module to Prometheus.
//
//	registry.MustRegister(btlprom.NewCollector(module.Stats, nil))
//
// Every scrape takes one snapshot, so the figures of a scrape belong together: the counters of
// received packets add up to the packets received. The names and help texts are those of
// btl.Counter; nothing is counted here, and a scrape costs the module's owner nothing.
//
// A Collector is safe for concurrent use if its snapshot function is, as Module.Stats and
// Runner.Stats are.
package btlprom
