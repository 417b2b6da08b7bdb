// Package job is what btlrun does with all the hosts of a job: it lays the ranks out, has an agent
// on each host start them, serves PMI-1 to them, and ends the rest when one dies.
//
//	standard input --> rank 0                     agent of this host --> ranks
//	signals -------->  loop: pmi.Server  <------> rsh HOST btlrun agent --> ranks
//	                        |                     ...
//	standard output <-- lines with labels <------ readers, one a host
//
// One goroutine has all that is known of the job; what comes from agents, signals and timers are
// events for it. What ranks write goes past it, by queues that credit to the agents bounds, so that
// a reader of btlrun's output that does not read holds up the ranks that write, and nothing else.
package job
