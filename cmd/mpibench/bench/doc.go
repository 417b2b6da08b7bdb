// Package bench measures package mpi with the tests of the OSU benchmarks for MPI libraries. Each
// test runs between the ranks of a job, and every rank calls Run.
//
//	Run: for each test, number of ranks, size
//	  calibrate: more and more iterations, until rank 0 knows how many fill the time
//	  measure:   so many iterations, each a sample of a histogram
//	  agree:     the slowest rank's times, or the sum of all senders' rates --> Result at rank 0
//
// With Options.Verify the content of every message is checked, outside of the measured time. If
// received data differ from the sent data, Run returns ErrVerify at all ranks.
//
// Only one goroutine of each rank may call Run.
package bench
