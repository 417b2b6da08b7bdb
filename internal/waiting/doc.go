// Package waiting decides what a thread does after the thread has looked for work and found none.
// There are three actions: look again at once (spin), yield the processor and then look again, or
// sleep. All polling loops of this module use this one policy. The loop tells its Policy the time
// and whether the loop found work. The Policy returns an Action, which the loop carries out.
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
// The mode Busy never sleeps, and the mode Event never spins. The mode Adaptive spins for as long
// as a wake-up costs, and then sleeps. The cost of a wait in the mode Adaptive is then at most
// twice that of the best choice.
//
// Adaptive learns two durations. The first duration is the time by which sleeps overrun on this
// machine. The second duration is the length of the pauses between two finds. Adaptive spins longer
// if slightly more spinning would have avoided a wake-up, and hardly spins if spinning has failed
// many times in a row.
//
// If two threads wait for each other and sleep, each thread measures pauses that contain the
// wake-up of the other thread. From time to time Adaptive therefore spins through some pauses, to
// see whether the pauses become shorter without sleeps (see trial).
//
// The first search after a silence has a spinning time of its own, because the thread that will
// answer the search is most probably asleep, too. A Policy is Calm if its latest pauses were all
// silences that the thread slept through. A Calm caller that has found something may sleep without
// another look, if the arrival of more work ends the sleep.
//
// A thread that is preempted while it spins shares its processor with another thread, perhaps with
// the thread that it waits for. From then on the thread yields after each look, until the yields no
// longer let another thread run. Only the kernel counts preemptions, and therefore a Policy rarely
// asks for the count (interface Thread). A thread that sleeps before it can be preempted yields
// once before the sleep. If the thread then finds work, the thread goes on yielding. If such yields
// never help, the thread tries a yield only now and then. A thread also yields if as many threads
// of its process wait as GOMAXPROCS allows, because the other goroutines need a processor.
//
// Whether yielding pays depends on the thread that runs after the yield:
//
//	thread that runs next        yield returns         action
//	another waiting thread       in microseconds       yield
//	none                         at once               spin
//	a thread that computes       a time slice later    never yield: spin briefly, then sleep
//
// On Linux a yield gives a whole time slice to a computing thread only within one scheduling group,
// which is a session, a container or a job step. Two consecutive yields of a millisecond or more
// show a computing thread (see Yielded). The Policy then stops yielding for 100 ms. Each further
// long yield doubles the time without yields, up to 3.2 s. During the time without yields the
// thread spins for no longer than a wake-up costs, even if the thread has learned a longer spinning
// time. If more threads than processors spun longer, each spinning thread would look like a
// computing thread to the other threads. If a job has more threads than processors, the threads of
// the job yield in any case (see AmongFriends).
//
// One thread uses a Policy at a time. Several threads may use a Policy in turn under a lock, if
// each thread calls Begin first. A Policy allocates nothing after New.
package waiting
