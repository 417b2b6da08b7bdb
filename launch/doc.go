// Package launch gives a process of a parallel job its rank, and exchanges the addresses of its
// modules with the other processes. It works with several launchers:
//
//	launcher                                    how it is known       spoken
//	mpiexec.hydra, btlrun, srun --mpi=pmi2      PMI_FD                PMI-1 over an inherited socket
//	mpiexec.hydra -pmi-port                     PMI_PORT, PMI_ID      PMI-1 over TCP
//	mpirun of Open MPI                          OMPI_COMM_WORLD_RANK  PMI-1 with rank 0
//	none                                        nothing of these      nothing: a job of one rank
//
// A job begins with the exchange of business cards, one or more of each rank, up to ValueBytesMax:
//
//	Join --> Put my cards --> Fence: all have --> Get the others' --> ... --> Finalize
//
// A value that does not fit into a line of PMI-1 is split into pieces:
//
//	key                 value
//	b3.btl.0            40.Aq0f...    the bytes, then the first piece of them, base64url
//	b3.btl.1            ...
//
// All input from a launcher is validated: sizes, numbers, keys, the syntax of every line. A late
// answer is an error, and so is an invalid one.
//
// Any goroutine may use a Job. Concurrent calls are serialized.
package launch
