// Package launch starts jobs with the installed launchers and with btlrun. The ranks run this
// test's binary, or mpibench with all of its tests. The test's binary gets its rank from package
// launch, exchanges the names of its modules with the other ranks, and sends each of them a message
// over the transport.
//
//	main_test.go       the ranks
//	launchers_test.go  mpiexec.hydra, mpirun of Open MPI
//	slurm_test.go      srun --mpi=pmi2, with a Slurm of one node that the test starts and stops
//	btlrun_test.go     btlrun, also over a remote shell, and with a program of MPICH
//
// A launcher that is not installed is missing where CI is set, and skipped elsewhere.
package launch
