// Package compare measures package mpi beside Open MPI and MPICH. The comparison alternates between
// mpibench and an equivalent C program under the other MPI libraries.
//
//	each round: each job: mpi, Open MPI, MPICH; then btl alone, by btlbench
//	  lines of JSON, the same of all --> medians of the rounds --> table, goals, plots, document
//
// All of them use UDP or TCP over the loopback interface, and thus the kernel's network stack. The
// package has no shared state, so any goroutine may call any function.
package compare
