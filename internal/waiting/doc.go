// Package waiting decides what a thread does after a poll that found no work. After a poll
// without work, the thread polls again at once (spins), yields the CPU and polls again, or
// sleeps. All polling loops of this module use the policy of package waiting. A polling
// loop tells its Policy the time, and whether a poll found work. The Policy returns an
// Action, which the polling loop carries out.
//
//	         found                         found
//	+-------------------+         +---------------------+
//	|                   v         v                     |
//	+------------- spinning --- for as long as a wake-up costs ---> asleep
//	                 |    ^                                           ^
//	     preempted   |    |  no other thread ran during yieldsLook    |
//	                 v    |  yields                                   |
//	                yielding --- the same time ------------------------+
//
// The mode Busy never sleeps, and the mode Event never spins. The mode Adaptive spins for
// as long as a wake-up costs, and sleeps after that time. A wait in the mode Adaptive costs
// at most twice as much as the best choice.
//
// The mode Adaptive measures by how much sleeps take longer than requested, and how long the
// pauses between two finds of work are. The mode Adaptive spins longer if slightly more spinning
// would have avoided a wake-up, and hardly spins if spinning has failed many times in a row.
//
// If two threads wait for each other and both sleep, each thread measures pauses that
// contain the wake-up of the other thread. From time to time the mode Adaptive spins
// through some pauses, to measure whether the pauses become shorter without sleeps (see
// trial).
//
// The first wait after a long pause (a silence) has a separate spinning time, because the thread
// at the other end is probably asleep. A Policy is Calm if the thread slept through all its
// latest pauses and each of these pauses was long (a silence). A thread with a Calm Policy may
// sleep directly after a poll that found work, if the arrival of more work ends the sleep.
//
// A thread that is preempted while it spins shares its CPU with another thread, perhaps with the
// thread for which it waits. After a preemption the thread yields after each poll, until the
// yields no longer let another thread run. A Policy rarely asks for the number of preemptions
// (interface Thread), because only the kernel counts preemptions. A thread that sleeps before it
// can be preempted yields once before the sleep. If the thread finds work after the yield before
// a sleep, it continues to yield. If yields before a sleep never help, the thread yields before a
// sleep only now and then. A thread also yields if GOMAXPROCS threads of its process wait,
// because the other goroutines need a CPU.
//
// Whether yielding is useful depends on the thread that runs after the yield.
//
//	thread that runs next        yield returns         action
//	another waiting thread       in microseconds       yield
//	none                         at once               spin
//	a thread that computes       a time slice later    never yield: spin briefly, then sleep
//
// On Linux a yield gives a whole time slice to a computing thread only within one
// scheduling group, which is a session, a container or a job step. Two consecutive yields
// of a millisecond or more are a sign of a computing thread on the same CPU (see Yielded).
// After two consecutive long yields, the Policy stops yielding for 100 ms. Each further
// long yield doubles the time without yields, up to 3.2 s. While a thread has stopped
// yielding because of long yields, it spins for no longer than a wake-up costs. If a job
// has more threads than CPUs, the threads of the job always yield (see AmongFriends).
//
// One thread uses a Policy at a time. Several threads may use a Policy in turn under a lock, if
// each thread calls Begin first. A Policy allocates nothing after New.
package waiting
