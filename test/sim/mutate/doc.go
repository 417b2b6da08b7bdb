// Command mutate proves that the tests can fail. It puts deliberate faults into the sources, one
// after the other, and shows which test detects each of them: the swarm, from a fixed first seed
// on, or else a named test. It fails if a fault is not detected.
//
//	go run ./test/sim/mutate [--only NAME,...] [--list] [--rewrite]
//
// With --rewrite the table of results replaces what stands between the markers in
// test/sim/README.md.
//
// The faults are in the tables. Each is a pattern of the code that it replaces, matched by syntax
// in all files of a package, so that moving code, renaming what it belongs to, or breaking its
// lines otherwise does not matter; a test proves that each is found exactly once, and that the
// result compiles. The sources stay as they are (the go command is given an overlay), but they
// must not be changed while the command runs.
package main
