// Package agent runs the ranks of a job on one host, and carries what they say to btlrun and back:
// in btlrun's own process for its host, in a process of its own behind a remote shell for another.
//
//	btlrun                                agent                    rank
//	                    <-- greeting ---
//	--- start: ranks, command, env ---->  a process for each --->
//	--- pmi, stdin, signal ------------>                     --->  PMI_FD, standard input
//	                                                         <---  PMI_FD, output, its end
//	              <-- pmi, out, err, exit, taken ---
//	--- end of the stream ------------->  kills what is left
//
// After the greeting all is frames:
//
//	0  1  kind
//	1  4  rank, big-endian
//	5  4  length of the body
//	9     body
//
// A frame of PMI has one line. Of standard input one frame is under way at a time, which is
// answered with taken when the rank has it: so a rank that does not read holds up nothing else.
package agent
