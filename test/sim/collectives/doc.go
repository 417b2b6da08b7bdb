// Package collectives computes the costs of the collective operations of mpi/coll among many ranks
// for docs/mpi.md, in a model in which a rank sends and receives at most one message in each step.
package collectives
