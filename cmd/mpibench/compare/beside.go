package compare

import "gobtl/cmd/btlbench/plan"

// Beside is the kind of work that other programs do on the CPUs of the ranks meanwhile.
type Beside string

// The kinds of neighbours. There is one neighbour on each CPU of the ranks.
const (
	// Alone is no neighbour.
	Alone Beside = "none"
	// Quiet is no neighbour either, for the tests that are measured beside neighbours.
	Quiet Beside = "quiet"
	// Loops compute without end in the session of the ranks, as another step of a batch job does.
	Loops Beside = "loops"
	// Sessions compute without end, each in a session of its own.
	Sessions Beside = "sessions"
	// Nice computes without end in the session of the ranks, with nice 19.
	Nice Beside = "nice"
	// Wakes sleeps for a millisecond and computes for a tenth of one, in turns.
	Wakes Beside = "wakes"
)

// Description says what the neighbours do.
func (b Beside) Description() string {
	switch b {
	case Loops:
		return "an endless loop of the same session on each CPU"
	case Sessions:
		return "an endless loop of another session on each CPU"
	case Nice:
		return "an endless loop with nice 19 of the same session on each CPU"
	case Wakes:
		return "a process that wakes nearly 1000 times a second on each CPU"
	case Alone, Quiet:
	}
	return "nothing else"
}

// named is the name of the report's lines in a document, and of its files.
func (b Beside) named() string {
	if b == Alone || b == "" {
		return Name
	}
	return "busy-" + string(b)
}

// wrap returns the command that runs another one beside the neighbours.
func (b Beside) wrap(mpibench string, cpus plan.CPUList, name string, args []string) (
	string, []string,
) {
	if b == Alone || b == Quiet || b == "" {
		return name, args
	}
	return mpibench, append([]string{"beside", string(b), cpus.String(), name}, args...)
}

// gobtlEvent is package mpi whose ranks sleep whenever they wait.
const gobtlEvent = "gobtl event"

// besideJobs are the jobs that are measured beside neighbours.
func besideJobs() []job {
	return []job{
		{2, []string{"latency", "bw"}, []int{8, 4 * k, 64 * k, m}},
		{8, []string{"barrier", "allreduce"}, []int{8, m}},
	}
}
