// Package waiting decides what a thread does after a poll that found no work. The thread polls
// again at once (spins), yields the CPU and polls again, or sleeps. All polling loops of this
// module tell a Policy the time, and whether a poll found work. The Policy returns an Action.
//
// The mode Busy never sleeps, and the mode Event never spins. The mode Adaptive spins for as long
// as a wake-up costs, and then sleeps, so that a wait costs at most twice as much as the best
// choice. What the mode does besides depends on the State, which the Policy derives from evidence:
//
//	state   evidence                                  waits by            until
//	alone   none of the below                         spinning, sleep     -
//	shared  a preemption; a yield that found work;    yields, sleep       64 yields let nobody run
//	        GOMAXPROCS threads of the process wait
//	beside  two yields in a row of 1 ms or more       brief spin, sleep   100 ms to 3.2 s have passed
//	stolen  1 ms between two polls without a          brief spin, sleep   100 ms have passed
//	        preemption, and a rise of stolen CPU time
//
// A thread in the state beside shares its CPU with a thread that computes. On Linux a yield gives a
// whole time slice to such a thread within one scheduling group, which is a session, a container or
// a job step. A yield is tried again after 100 ms, and each further long yield doubles that time.
// In the state stolen the host of a virtual machine has taken the CPU away, and a yield has no
// effect. Threads of a job that has more threads than CPUs yield in any case (see AmongFriends).
//
// Only the kernel counts preemptions and stolen time, so a Policy rarely asks for them (interface
// Thread). A thread that sleeps before it can be preempted yields once before the sleep, and only
// now and then if such yields never help.
//
// The mode Adaptive measures by how much sleeps take longer than requested, and how long the pauses
// between two finds of work are. It spins longer if slightly more spinning would have avoided a
// wake-up, and hardly spins if spinning has failed many times in a row. Two threads that wait for
// each other measure pauses that contain the other's wake-up, so the mode now and then spins for
// longer, up to the cost of four wake-ups. While that avoids sleeps, the mode keeps spinning for
// that long, and the other end, whose pauses become shorter, soon spins, too. The first wait after
// a long pause (a silence) has a spinning time of its own, because the other end is probably
// asleep. A thread that has slept through all its latest pauses, all of them silences, may sleep at
// once (see Calm).
//
// One thread uses a Policy at a time. Several threads may use a Policy in turn under a lock, if
// each thread calls Begin first. A Policy allocates nothing after New, except for stolen time.
package waiting
