// Package report has what every program that measures shows its figures with: tables of text, plots
// as SVG, medians, the machine that it ran on, and the part of a document between two marker lines.
//
//	figures --> Median, Significant --> Table  --> standard output, --> Document.Update
//	        \                       \-> Lines, Bars, Heat --> SVG   /
//	         \-> CSV and JSON, which each program has of its own
//
// Tables are go-pretty's and plots gonum's; here is what makes all of them look the same. Nothing
// in the package is shared: any goroutine may call anything.
package report
