// Package agent runs the ranks of a job on one host, and carries what they say to btlrun and back:
// in btlrun's own process for its host, in a process of its own behind a remote shell for another.
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
// A signal is answered with signalled when the ranks have it: btlrun stops itself only when they
// are stopped. A frame of PMI has one line. Of standard input one frame is under way at a time,
// which is answered with taken when the rank has it: so a rank that does not read holds up nothing
// else. Of what a rank writes to its standard output 64 KiB are under way, at the most, and as
// many of its standard error: credit tells how much btlrun has written, for which it does not wait
// before it reads on. So a rank that writes without end, and a reader of btlrun's output who does
// not read, hold up no rank's PMI, signals or end. What the pipe has when a rank ends follows
// without credit.
package agent
