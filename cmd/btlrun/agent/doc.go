// Package agent runs the ranks of a job on one host, and carries their input and output between
// them and btlrun. On btlrun's own host it runs within the process of btlrun. On other hosts it
// runs as a process behind a remote shell.
//
//	btlrun                                agent                    rank
//	                    <-- greeting ---
//	--- start: ranks, command, env ---->  a process for each --->
//	--- pmi, stdin, signal, credit ---->                     --->  PMI_FD, standard input
//	                                                         <---  PMI_FD, output, its end
//	     <-- pmi, out, err, exit, taken, signalled ---
//	--- end of the stream ------------->  kills what is left
//
// After the greeting all is frames:
//
//	0  1  kind
//	1  4  rank, big-endian
//	5  4  length of the body
//	9     body
//
// The agent answers a signal with signalled after it has signalled the ranks, so that btlrun stops
// itself only after they are stopped. A PMI frame has one line. At most one frame of standard input
// is under way. The agent answers it with taken when the rank has read it, so a rank that does not
// read delays nothing else. At most 64 KiB of a rank's standard output are under way, and 64 KiB of
// its standard error. btlrun sends credit for the bytes that it has written, and continues to read
// frames before they are written. So neither a rank that writes without end nor a blocked reader of
// btlrun's output delays PMI, signals or the end of a rank. The bytes left in the pipe when a rank
// ends follow without credit.
package agent
