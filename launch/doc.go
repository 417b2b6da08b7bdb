// Package launch tells a process of a parallel job who it is, and carries the addresses of its
// modules to the others, through whatever launcher has started it:
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
// What PMI-1 has no room for in a line is cut into pieces:
//
//	key                 value
//	b3.btl.0            40.Aq0f...    the bytes, then the first piece of them, base64url
//	b3.btl.1            ...
//
// Nothing that a launcher says is believed without a look: sizes, numbers, keys, the form of every
// line. What it does not answer in time is an error, and so is what it answers wrongly.
//
// Any goroutine may use a Job; its calls take turns.
package launch
