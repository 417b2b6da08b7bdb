// Command mutate proves that the tests can fail. It puts one deliberate fault after the other into
// a copy of the sources, and shows what notices each of them: the swarm, from a fixed first seed
// on, or else a named test. A fault that nothing notices makes it fail.
//
//	go run ./test/sim/mutate [-only NAME] [-list] [-rewrite]
//
// With -rewrite the table of results replaces what stands between the markers in
// test/sim/README.md. The faults are in table.go; a test proves that each of them still applies.
package main
