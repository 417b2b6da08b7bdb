// Package launch starts jobs with the launchers that there are, and with btlrun: the ranks are this
// test's binary, which learns by package launch who it is, exchanges the names of its modules with
// the others, and sends each of them a message over the transport; or they are mpibench, with all
// of its tests.
//
//	main_test.go       the ranks
//	launchers_test.go  mpiexec.hydra, mpirun of Open MPI
//	slurm_test.go      srun --mpi=pmi2, with a Slurm of one node that the test starts and stops
//	btlrun_test.go     btlrun, also over a remote shell, and with a program of MPICH
//
// A launcher that is not installed is missing where CI is set, and skipped elsewhere.
package launch
