// Package waiting decides what a thread does after a poll that found no work. The thread either
// polls again at once (spins), or yields the CPU and polls again, or sleeps. Each polling loop of
// this module tells its Policy the time, and whether the latest poll found work. The Policy returns
// an Action.
//
// The mode Busy never sleeps, and the mode Event never spins. In the mode Adaptive, the thread
// first spins for a limited time (the spinning time), and then sleeps. The State of a Policy tells
// which work, in addition to the waiting thread, wants the CPU, according to the following table.
//
//	state   evidence                                  waits by                    until
//	alone   none of the below                         spinning, sleep             -
//	shared  a preemption; a yield that found work;    yields, sleep               64 yields let
//	        GOMAXPROCS threads of the process wait                                nobody run
//	beside  a yield of 1 ms or more                   spinning briefly, sleep     100 ms; 1 s
//	                                                                              after two in a row
//	stolen  1 ms between two polls without a          spinning briefly, sleep     100 ms
//	        preemption, and a rise of stolen CPU time
//
// The mode Adaptive measures how long a wake-up takes. The spinning time is 0, 4 us, the time of
// one wake-up, or the time of four wake-ups. The policy chooses the longest of the four spinning
// times that was long enough for at least one of the latest three waits. If a spinning time was too
// short for each of the latest three waits, the policy uses it only in one of 64 waits. The
// spinning time of four wake-ups is meant for two threads that wait for each other, because the
// wait of each thread then includes the wake-up of its partner. In the states "beside" and
// "stolen", the spinning time is at most the time of two wake-ups, one for the partner's wake-up
// and one for the partner's work.
//
// A thread in state "beside" shares its CPU with a thread that computes. On Linux, a yield gives
// the computing thread a whole time slice if both threads are in the same scheduling group, which
// is a session, a container or a job step. In the state "stolen", the host of the virtual machine
// has used the CPU for work outside of this virtual machine, so that a yield does not help. In the
// state "alone", the thread yields once before each sleep, so that its policy notices if a
// different thread wants the CPU. If the yields in the state "alone" never let a different thread
// run, the thread yields only before one of 64 sleeps.
//
// A job is oversubscribed if more of its threads wait than its CPUs can run at a time. The threads
// of an oversubscribed job have different durations of yielding, of spinning and of the state
// "beside" (see AmongFriends). In the state "shared", a thread of an oversubscribed job yields for
// at least 3 ms before it sleeps. The state "beside" of a thread of an oversubscribed job begins
// after six consecutive yields of 1 ms or more, and lasts for 1 s. In the state "beside", a thread
// of an oversubscribed job spins for at most 4 us, because several threads that spin on one CPU
// beside a thread that computes delay each other.
//
// One thread uses a Policy at a time. Several threads may use one Policy alternately, under a lock,
// if each thread calls Begin before it uses the Policy. Only two actions of a Policy allocate
// memory, which are the call of New and the reading of a virtual machine's stolen CPU time.
package waiting
