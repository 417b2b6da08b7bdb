// Command tracecompare runs seeds of the swarm with a commit and with the working tree, and
// compares the traces of the simulated networks packet by packet. A change that keeps the wire
// format and the behaviour gives exactly the same traces.
//
//	tracecompare --base COMMIT --seeds 256
//
// The command checks the commit out into a temporary directory, builds the command swarm of both,
// replays every seed with both, and shows the first different lines.
package main
