// Package compare measures the transport and comparable systems in one run. On the same two CPUs,
// each round measures the same quantities of all systems one after the other, so that disturbances
// of the machine affect all systems alike.
//
//	compare.go   Config and Run: the order of the measurements of package systems
//	report.go    the report, JSON and CSV
//	table.go     tables for people
//	plot.go      plots (SVG)
//	docs.go      the part of a document that a run writes
//
// A system is measured once per round at each point that it supports, and the report has the value
// of every round. The package writes nothing to standard output or error. Only one goroutine may
// use a run.
package compare
