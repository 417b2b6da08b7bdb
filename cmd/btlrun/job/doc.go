// Package job is the core of btlrun. The package assigns ranks to hosts, starts the ranks through
// an agent on each host, and serves PMI-1 to the ranks. When one rank dies, the job ends all ranks.
//
//	standard input --> rank 0                     agent of this host --> ranks
//	signals -------->  loop: pmi.Server  <------> rsh HOST btlrun agent --> ranks
//	                        |                     ...
//	standard output <-- lines with labels <------ readers, one a host
//
// One goroutine owns the state of the job. The events of the job are frames of agents, signals and
// timers. Output of ranks does not pass through the goroutine of the job, but through queues whose
// size is limited by credit. If the reader of btlrun's output is slow, only the ranks that write
// output are delayed.
package job
