// Command mpibench measures package mpi between the ranks of a job, as the OSU benchmarks measure
// an MPI library. The tests measure messages between two ranks, messages of many pairs at once, and
// collective operations.
//
//	btlrun -n 2 mpibench --test latency,bw --size 8,1M
//	mpiexec.hydra -n 4 mpibench --test all --verify
//	mpibench compare                       alternately with Open MPI and MPICH
//
// Package main contains the command line and its output. Package bench contains the tests. Package
// compare starts jobs of mpibench, and jobs of a C program under other MPI libraries.
//
// Rank 0 writes the measured values to standard output, each table or line as soon as it is
// complete. All other output goes to standard error. An error in the command line is reported once,
// by rank 0. The exit status is 0 for success, 1 for a failure or wrong data, and 2 for wrong
// usage.
package main
