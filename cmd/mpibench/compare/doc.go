// Package compare measures package mpi beside Open MPI and MPICH: jobs of mpibench and jobs of a
// program in C that does the same work, in turns.
//
//	each round: each job: mpi, Open MPI, MPICH; then btl alone, by btlbench
//	  lines of JSON, the same of all --> medians of the rounds --> table, goals, plots, document
//
// The other MPIs are kept to TCP over the loopback interface, for package mpi goes through the
// kernel's network, too. Nothing in the package is shared: any goroutine may call anything.
package compare
