// Package launch gives a process of a parallel job its rank, and exchanges the addresses of
// transport modules between the processes. The package supports several launchers.
//
//	launcher                                    how it is known       spoken
//	mpiexec.hydra, btlrun, srun --mpi=pmi2      PMI_FD                PMI-1 over an inherited socket
//	mpiexec.hydra -pmi-port                     PMI_PORT, PMI_ID      PMI-1 over TCP
//	mpirun of Open MPI                          OMPI_COMM_WORLD_RANK  PMI-1 with rank 0
//	none                                        no such variable      nothing, for a job of one rank
//
// At the start of a job, each rank publishes one or more values (business cards) of at most
// ValueBytesMax bytes, and reads the values that the other ranks of the job have published.
//
//	Join --> Put my cards --> Fence: all have --> Get the others' --> ... --> Finalize
//
// A value that is too long for one line of PMI-1 is split into pieces, and each piece is published
// under its own key.
//
//	key                 value
//	===                 =====
//	b3.btl.0            40.Aq0fKxZm   size in bytes, a dot, and the first piece in base64url
//	b3.btl.1            w41cR2sV      second piece
//
// The package validates the sizes, numbers, keys and line syntax of all input from a launcher. If a
// reply of the launcher is invalid, or does not arrive before the timeout, the waiting call returns
// an error.
//
// A Job is safe for concurrent use by several goroutines, and carries out concurrent calls one
// after another.
package launch
