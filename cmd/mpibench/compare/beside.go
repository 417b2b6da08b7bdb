package compare

import "gobtl/cmd/btlbench/plan"

// Beside is the kind of work that neighbour processes do on the CPUs of the ranks.
type Beside string

// The constants are the kinds of neighbours. One neighbour runs on each CPU of the ranks.
const (
	// Alone means that there are no neighbours.
	Alone Beside = "none"
	// Quiet means no neighbours, but the same tests as with neighbours.
	Quiet Beside = "quiet"
	// Loops is a neighbour that computes without end in the session of the ranks, like another step
	// of a batch job.
	Loops Beside = "loops"
	// Sessions is a neighbour that computes without end in a session of its own.
	Sessions Beside = "sessions"
	// Nice is a neighbour that computes without end in the session of the ranks, with nice value
	// 19.
	Nice Beside = "nice"
	// Wakes is a neighbour that alternately sleeps for 1 ms and computes for 0.1 ms.
	Wakes Beside = "wakes"
)

// Description returns a text that describes what the neighbours do.
func (b Beside) Description() string {
	switch b {
	case Loops:
		return "one endless loop per CPU, in the session of the benchmark"
	case Sessions:
		return "one endless loop per CPU, in a session of its own"
	case Nice:
		return "one endless loop at nice 19 per CPU, in the session of the benchmark"
	case Wakes:
		return "one process per CPU, which wakes up nearly 1000 times a second"
	case Alone, Quiet:
	}
	return "none"
}

// The method named returns the name of the report's section in a document, which is also the name
// of its files.
func (b Beside) named() string {
	if b == Alone || b == "" {
		return Name
	}
	return "busy-" + string(b)
}

// wrap returns the command that runs another command beside the neighbours.
func (b Beside) wrap(mpibench string, cpus plan.CPUList, name string, args []string) (
	string, []string,
) {
	if b == Alone || b == Quiet || b == "" {
		return name, args
	}
	return mpibench, append([]string{"beside", string(b), cpus.String(), name}, args...)
}

// gobtlEvent is the name of package mpi in the mode in which its ranks sleep whenever they wait.
const gobtlEvent = "gobtl event"

// besideJobs returns the jobs that run beside neighbours.
func besideJobs() []job {
	return []job{
		{2, []string{"latency", "bw"}, []int{8, 4 * k, 64 * k, m}},
		{8, []string{"barrier", "allreduce"}, []int{8, m}},
	}
}
