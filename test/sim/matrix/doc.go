// Package matrix measures how well the transport recovers and shares, on fabric/sim, in virtual
// time. It has a matrix of paths (Cell) for each recovery profile, with the performance on each
// path (Result), as text, CSV, JSON and colour maps.
//
//	cell.go     the axes of the matrix; a Cell is one point of it
//	world.go    modules on a simulated network, and two small applications: a stream, a ping-pong
//	measure.go  the three runs of a cell: a stream alone, two streams at one bottleneck, 8 B messages
//	matrix.go   all cells on all processors
//	report.go   the table, CSV, JSON, and the part of docs/recovery.md
//	heat.go     the maps
//
// A cell gives the same Result whenever it is measured, on every machine. To look at another path,
// add a value to an axis in cell.go, or write down a Cell and Measure it; the table floors of the
// tests holds some cells with what must be reached there.
package matrix
