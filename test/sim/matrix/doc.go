// Package matrix measures how the transport recovers from loss and shares a bottleneck, on
// fabric/sim in virtual time. For each recovery profile and each path (Cell), the package gives the
// performance (Result) as text, CSV, JSON and colour maps.
//
//	cell.go     the axes of the matrix; a Cell is one point of it
//	world.go    modules on a simulated network, and two small applications: a stream, a ping-pong
//	measure.go  the three runs of a cell: a stream alone, two streams at one bottleneck, 8 B messages
//	matrix.go   all cells on all processors
//	report.go   the table, CSV, JSON, and the part of docs/recovery.md
//	heat.go     the maps
//	situations*.go  scenes for which single mechanisms of the transport were made
//
// A cell always gives the same Result, on every machine. To measure another path, add a value to an
// axis in cell.go, or call Measure with a new Cell. The table floors of the tests holds the
// required performance of some cells.
package matrix
