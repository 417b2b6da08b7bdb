// Package report presents the results of all measuring programs. It has text tables, SVG plots,
// medians, a description of the machine, and the replacement of a part of a document between two
// marker lines.
//
//	figures --> Median, Significant --> Table  --> standard output, --> Document.Update
//	        \                       \-> Lines, Bars, Heat --> SVG   /
//	         \-> CSV and JSON, which each program has of its own
//
// Tables use go-pretty and plots use gonum; this package gives all of them the same style. It has
// no shared state, so any goroutine may call any function.
package report
