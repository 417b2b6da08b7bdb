// Command mechanisms measures what each special mechanism of the transport brings, and writes the
// table of docs/mechanisms.md.
//
//	go run ./test/mechanisms [--only NAME,...] [--rounds N] [--no-cpu] [--update-docs FILE]
//
// The tables (table*.go) list the mechanisms with their code, a change of the sources or a switch
// that turns each one off, and the situations for which it was made. Each trial runs twice, with
// the mechanism and without it:
//
//	change --> go build -overlay --> program without the mechanism --+
//	                                                                 +--> figures, gain
//	           go build ----------> program with it -----------------+
//
// A trial on fabric/sim (package test/sim/matrix) runs in virtual time, always has the same result,
// and runs once. A trial of btlbench runs in several rounds, with and without the mechanism in
// turns, and the table has the medians.
package main
