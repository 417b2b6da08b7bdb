// Package launch starts jobs with the installed launchers and with btlrun. The ranks run this
// test's binary, or mpibench with all of its tests. In the test's binary, each rank gets its number
// from package launch, exchanges the names of modules with the other ranks, and sends a message to
// each of them.
//
//	main_test.go       the ranks
//	launchers_test.go  mpiexec.hydra, mpirun of Open MPI
//	slurm_test.go      srun --mpi=pmi2, with a Slurm of one node that the test starts and stops
//	btlrun_test.go     btlrun, also over a remote shell, and with a program of MPICH
//
// If a launcher is not installed, its tests fail if CI is set, and are skipped otherwise.
package launch
