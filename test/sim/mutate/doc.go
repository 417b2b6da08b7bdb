// Command mutate proves that the tests can fail. The command puts one deliberate fault after the
// other into the sources, and shows which test detects the fault, either the swarm with its first
// seeds or a named test. The command fails if a fault is not detected.
//
//	go run ./test/sim/mutate [--only NAME,...] [--list] [--rewrite]
//
// With --rewrite the table of results replaces the text between the markers in test/sim/README.md.
//
// Each fault of the tables has a pattern of Go syntax, which is found in all files of a package
// independently of layout, names of receivers, and line breaks. A test proves that each pattern is
// found exactly once, and that the result compiles. The sources stay unchanged (the go command is
// given an overlay), but nothing else may change them while the command runs.
package main
