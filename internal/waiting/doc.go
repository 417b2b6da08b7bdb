// Package waiting decides what a thread does whose search for work was in vain: look again at
// once, let others have the processor first, or sleep. It is one policy for all loops of the
// house: a Policy is given the time and what was found, and answers with an Action; the loop
// carries it out.
//
//	         found                         found
//	+-------------------+         +---------------------+
//	|                   v         v                     |
//	+------------- spinning --- for as long as a wake-up costs ---> asleep
//	                 |    ^                                           ^
//	     preempted   |    |  nobody came, yieldsLook times            |
//	                 v    |                                           |
//	                yielding --- the same time ------------------------+
//
// Spinning for as long as a wake-up costs loses at most half of what knowing the future would
// save. Adaptive does so, and learns: how late this machine's sleeps end, and how long the pauses
// are here; where a wake-up would have been spared by a little more spinning it spins longer,
// where spinning has been in vain again and again, hardly at all. Two that wait for each other,
// and both sleep, see pauses that their own wake-ups make: now and then it tries what leaving
// them out does (trial). The first search after a silence is looked at by itself: whoever is to
// answer it sleeps, too, mostly. And who has slept through nothing but silences of late is Calm:
// with a sleep that ends by what has come just before it, he need not look again once he has
// found something. Busy never sleeps, Event never spins.
//
// A thread that is preempted while it spins shares its processor with somebody, perhaps with the
// very one it waits for: from then on it yields between two looks, until nobody takes the
// processor when it does. Only the kernel knows of preemptions; a Thread asks it, rarely. One
// that sleeps before it is preempted yields once before that: if it finds something then, it is
// the same. Where it never does, it yields now and then only. So does a thread yield where as
// many of one process wait as it may use processors: Go's other goroutines need one.
//
// Who has the processor after a yield decides whether yielding is right:
//
//	who                          comes back            so
//	others that wait, too        in microseconds       yield
//	nobody                       at once               spin
//	a neighbour that computes    a slice later         never yield: spin briefly, then sleep
//
// On Linux the last is so within one scheduling group: a session, a container, a job step. Two
// yields in a row that take a millisecond or more show it (Yielded). For 100 ms nothing is yielded
// then, and after each further such yield for twice as long, up to 3.2 s. Meanwhile a thread spins
// for no longer than a wake-up costs, whatever it was given: more threads than processors that spin
// for longer, one after the other, would look like such a neighbour to each other. Threads of a job
// that are more than its processors yield in any case (AmongFriends).
//
// A Policy belongs to one thread at a time: several may use it in turn, under a lock, and each
// calls Begin first. It allocates nothing.
package waiting
