// Package btlprom exports the counters of a btl.Module to Prometheus.
//
//	registry.MustRegister(btlprom.NewCollector(module.Stats, nil))
//
// Every scrape takes one snapshot, so all figures of a scrape are consistent. For example, the
// counters of the kinds of received packets add up to the number of packets received. Names and
// help texts of the metrics are those of btl.Counter. A scrape takes no time of the goroutine
// that owns the module.
//
// A Collector is safe for concurrent use if its snapshot function is. Module.Stats and
// Runner.Stats are safe for concurrent use.
package btlprom
