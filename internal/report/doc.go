// Package report presents the results of all measuring programs. Package report makes text tables,
// SVG plots, medians and a description of the machine. Package report can insert results into a
// document, between two marker lines.
//
//	figures --> Median, Significant --> Table  --> standard output, --> Document.Update
//	        \                       \-> Lines, Bars, Heat --> SVG   /
//	         \-> CSV and JSON, which each program has of its own
//
// Tables are made with the module go-pretty, and plots with the module gonum. All tables have one
// common style, and all plots have one common style. The functions of package report are safe for
// concurrent use.
package report
