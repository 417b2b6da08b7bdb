// Package waiting decides what a thread does after a poll that found no work. The thread polls
// again at once (spins), yields the CPU and polls again, or sleeps. All polling loops of this
// module tell a Policy the time, and whether a poll found work. The Policy returns an Action.
//
// The mode Busy never sleeps, and the mode Event never spins. The mode Adaptive spins for as long
// as a wake-up costs, and then sleeps, so that a wait costs at most twice as much as with perfect
// foresight. The mode Adaptive depends on the State, which the Policy derives from the following
// evidence:
//
//	state   evidence                                  waits by            until
//	alone   none of the below                         spinning, sleep     -
//	shared  a preemption; a yield that found work;    yields, sleep       64 yields let nobody run
//	        GOMAXPROCS threads of the process wait
//	beside  two yields in a row of 1 ms or more       brief spin, sleep   100 ms to 3.2 s have passed
//	stolen  1 ms between two polls without a          brief spin, sleep   100 ms have passed
//	        preemption, and a rise of stolen CPU time
//
// A thread in the state beside shares its CPU with a thread that computes. On Linux, a yield gives
// the computing thread a whole time slice if both threads are in the same scheduling group, which
// is a session, a container or a job step. After such a long yield, a yield is tried again when 100
// ms have passed, and each further long yield doubles this time. In the state stolen, the host of a
// virtual machine has taken the CPU away, and a yield does not help. Threads of a job that has more
// threads than there are CPUs yield in every state (see AmongFriends).
//
// Preemptions and stolen time are counted by the kernel, and a Policy reads these counts rarely,
// because each reading takes a system call (interface Thread). A thread that goes to sleep earlier
// than it could be preempted yields once directly in front of the sleep. If yields in front of a
// sleep never let another thread run, the thread makes them only now and then.
//
// The mode Adaptive measures by how much sleeps take longer than requested, and how long the pauses
// between two polls that find work are. The mode Adaptive spins longer if slightly more spinning
// would have avoided a wake-up, and hardly spins at all if spinning has found no work many times in
// a row. If two threads wait for each other, each measures pauses that contain the wake-up of the
// other thread. Therefore the mode Adaptive now and then spins for longer, up to the cost of four
// wake-ups. As long as the longer spinning avoids sleeps, the mode Adaptive continues with the
// longer spinning, and the other thread, whose pauses become shorter, soon spins, too. For the
// first wait after a long pause (a silence), there is a separate spinning time, because the thread
// at the other end is probably asleep. If all recent pauses were silences and the thread has slept
// during each of them, the thread may sleep without spinning (see Calm).
//
// One thread uses a Policy at a time. Several threads may use a Policy in turn under a lock, if
// each thread calls Begin first. After New, a Policy allocates memory only when it reads the stolen
// time.
package waiting
