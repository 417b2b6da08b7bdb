// Package agent runs the ranks of a job on one host, and carries their input and output between the
// ranks and btlrun. On btlrun's own host the agent runs within the process of btlrun. On any other
// host the agent is a process that btlrun starts through a remote shell.
//
//	btlrun                                agent                    rank
//	                    <-- greeting ---
//	--- start: ranks, command, env ---->  a process for each --->
//	--- pmi, stdin, signal, credit ---->                     --->  PMI_FD, standard input
//	                                                         <---  PMI_FD, output, its end
//	     <-- pmi, out, err, exit, taken, signalled ---
//	--- end of the stream ------------->  kills what is left
//
// btlrun and the agent first exchange a greeting, and then frames of the following format, where
// each row gives offset, size in bytes, and meaning.
package agent
