// Command tracecompare runs seeds of the swarm on two states of the sources, a commit and the
// working tree, and compares what happened on the simulated networks, packet by packet: a change
// that is meant to leave the wire and the rules alone gives the same traces, byte for byte.
//
//	tracecompare --base COMMIT --seeds 256
//
// It checks the commit out into a temporary directory, builds the command swarm of both, replays
// every seed with both, and shows of a seed that differs the first lines that do.
package main
