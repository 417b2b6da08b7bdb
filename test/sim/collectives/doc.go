// Package collectives counts what the collective operations of mpi/coll cost among many ranks, in a
// model in which a rank begins to send one message a step, and takes one, which has come a step
// after it was sent: the steps until the last rank has its result, the bytes and the memory of the
// rank that has most of them, and the bounds of the algorithms beside them, for docs/mpi.md.
package collectives
