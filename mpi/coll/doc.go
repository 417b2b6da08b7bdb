// Package coll has the collective operations of package mpi, as schedules: lists of steps, which
// are carried out as messages come. A schedule knows neither goroutines nor clocks, and reaches
// other ranks by a Port, so it runs in a simulator as it runs in production.
//
//	send to 3 | receive from 5 | --- all so far --- | fold | send to 6 | receive from 2 | --- ...
//	`------ under way at once ------'               `local'
//
// All ranks of an operation must call it with the same sizes, for these choose the algorithm:
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
// Values are combined in the order of the ranks, whatever the root is, but where the operation
// commutes (*). A Schedule belongs to the owner of its Port.
package coll
