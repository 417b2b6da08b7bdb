// Package coll implements the collective operations of package mpi as schedules. A schedule is a
// list of steps. When a message arrives, the schedule carries out the steps that have waited for
// this message. A schedule uses neither goroutines nor clocks, and exchanges messages with other
// ranks through a Port. Because a schedule uses no clock, a simulator can run the same schedules as
// a real program.
//
//	send to 3 | receive from 5 | --- all so far --- | fold | send to 6 | receive from 2 | -->
//	`------ under way at once ------'               `local'
//
// All ranks must call a collective operation with the same sizes, because the sizes determine the
// algorithm.
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
// The values are combined in the order of the ranks from rank 0 on, for any root, except in the
// algorithms that are marked with an asterisk. Only the goroutine that owns the Port may use a
// Schedule.
package coll
