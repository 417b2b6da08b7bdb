// Mpibench measures package mpi between the ranks of a job, as the OSU benchmarks measure an MPI:
// messages between two ranks, of many pairs at once, and the collective operations.
//
//	btlrun -n 2 mpibench --test latency,bw --size 8,1M
//	mpiexec.hydra -n 4 mpibench --test all --verify
//	mpibench compare                       beside Open MPI and MPICH, in turns
//
// The command line and its output are here; bench has the tests, compare starts jobs of this
// program and of one in C under other MPIs.
//
// Rank 0 writes the figures, each table or line when it is there, to standard output; everything
// else goes to standard error, a mistake on the command line once, by rank 0. Exit status: 0
// success, 1 failure, wrong data among them, 2 usage.
package main
