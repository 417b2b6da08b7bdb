// Package compare measures package mpi beside Open MPI and MPICH. The comparison runs jobs of
// mpibench and jobs of an equivalent C program in turns.
//
//	each round: each job: mpi, Open MPI, MPICH; then btl alone, by btlbench
//	  lines of JSON, the same of all --> medians of the rounds --> table, goals, plots, document
//
// The other MPI libraries use TCP over the loopback interface, because package mpi also goes
// through the kernel's network stack. The package has no shared state, so any goroutine may call
// any function.
package compare
