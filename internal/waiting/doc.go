// Package waiting decides what a thread does after it has looked for work and found none. There
// are three actions: look again at once (spin), yield the processor and then look again, or sleep.
// All polling loops of this module use this one policy. The loop tells its Policy the time and
// whether it found work, and the Policy answers with an Action, which the loop carries out.
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
// as a wake-up costs, and then sleeps: this loses at most half of what an oracle would save.
//
// Adaptive learns two durations: by how much sleeps overrun on this machine, and how long the
// pauses between two finds are. It spins longer where slightly more spinning would have avoided a
// wake-up. It hardly spins at all where spinning has failed many times in a row.
//
// When two threads wait for each other and both sleep, each measures pauses that contain the
// wake-up of the other. From time to time Adaptive therefore spins through some pauses, to see
// whether they become shorter without sleeps (see trial).
//
// The first search after a silence has a spinning time of its own, because the thread that will
// answer it is most probably asleep too. A Policy whose latest pauses were all silences, slept
// through, is Calm. A caller that is Calm need not look again after it has found something, if its
// sleep ends when something has arrived in the meantime.
//
// A thread that is preempted while it spins shares its processor with another thread, perhaps with
// the thread that it waits for. From then on it yields after each look, until its yields no longer
// let another thread run. Only the kernel counts preemptions, so a Policy rarely asks for the count
// (interface Thread). A thread that sleeps before it can be preempted yields once before
// the sleep, and goes on yielding if it then finds something. Where such yields never help, the
// thread tries one only now and then. A thread also yields when as many threads of its process wait
// as GOMAXPROCS allows, because the other goroutines need a processor.
//
// Whether yielding pays depends on the thread that runs after the yield:
//
//	thread that runs next        yield returns         action
//	another waiting thread       in microseconds       yield
//	none                         at once               spin
//	a thread that computes       a time slice later    never yield: spin briefly, then sleep
//
// On Linux a yield gives a whole time slice to a computing thread only within one scheduling group:
// a session, a container or a job step. Two yields in a row that take a millisecond or more show
// such a thread (see Yielded). The Policy then yields nothing for 100 ms. Each further long yield
// doubles that time, up to 3.2 s. Until then the thread spins for no longer than a wake-up costs,
// whatever spinning time it was given: if more threads than processors spun longer, each would look
// like a computing thread to the next. When a job has more threads than processors, its threads
// yield in any case (see AmongFriends).
//
// One thread uses a Policy at a time. Several threads may use it in turn under a lock, if each
// calls Begin first. A Policy allocates nothing after New.
package waiting
