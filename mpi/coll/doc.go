// Package coll implements the collective operations of package mpi as schedules. A schedule
// is a list of steps, which are carried out when messages arrive. A schedule uses neither
// goroutines nor clocks, and reaches other ranks through a Port. A simulator can run a
// schedule exactly as in production.
//
//	send to 3 | receive from 5 | --- all so far --- | fold | send to 6 | receive from 2 | --- ...
//	`------ under way at once ------'               `local'
//
// All ranks of a collective operation must call the operation with the same sizes, because the
// sizes select the algorithm.
//
//	operation       small                        large
//	Barrier         dissemination
//	Bcast           binomial tree                scatter by a tree, ring of the parts
//	Reduce          binomial tree
//	Allreduce       recursive doubling           reduce-scatter and ring of the parts *
//	Gather, Scatter the root with each
//	Allgather       Bruck                        ring
//	Alltoall        all at once                  pairs, one at a time
//	ReduceScatter   reduce, scatter              ring *
//	Scan, Exscan    recursive doubling
//
// The values are combined in the order of the ranks, for any root, except by the algorithms
// marked with an asterisk. Only the goroutine that owns the Port may use a Schedule.
package coll
