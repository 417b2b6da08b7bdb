// Package job is the core of btlrun. It assigns ranks to hosts, starts them through an agent on
// each host, serves PMI-1 to them, and ends all ranks when one dies.
//
//	standard input --> rank 0                     agent of this host --> ranks
//	signals -------->  loop: pmi.Server  <------> rsh HOST btlrun agent --> ranks
//	                        |                     ...
//	standard output <-- lines with labels <------ readers, one a host
//
// One goroutine owns the state of the job. Frames of agents, signals and timers are its events. The
// output of ranks bypasses it, through queues that are bounded by the credit of the agents. So a
// blocked reader of btlrun's output delays the ranks that write, and nothing else.
package job
