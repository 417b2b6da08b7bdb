// Package sim tests the whole transport on the simulated network of fabric/sim. Its tests run a
// fixed set of seeds through package swarm; the command cmd/swarm runs more, and replays one.
package sim
