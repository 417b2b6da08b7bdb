// Package btlprom exports the counters of a btl.Module, or of a gobtl.Node, to Prometheus.
//
//	registry.MustRegister(btlprom.NewCollector(module.Stats, nil))
//	registry.MustRegister(btlprom.NewNodeCollector(node.Stats, nil)) // --> package gobtl
//
// Every scrape takes one snapshot of all counters, so that the values of a scrape are consistent.
// In each scrape, the numbers of received packets of all kinds add up to the number of all received
// packets. Each metric has the name and the help text of its btl.Counter. A scrape runs no code on
// the goroutine that owns the module.
//
// A Collector is safe for concurrent use if its snapshot function is safe for concurrent use, like
// Module.Stats and Runner.Stats.
package btlprom
