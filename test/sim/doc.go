// Package sim tests the whole transport on the simulated network of fabric/sim. The tests run a
// fixed set of seeds with package swarm, and the command cmd/swarm runs more seeds or replays one.
package sim
