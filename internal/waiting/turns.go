package waiting

// turns sums the per-thread counters of threads that take turns. Only the difference between two
// calls of the same thread, with no call of another thread in between, is added.
type turns struct {
	thread int
	before uint64 // counter of that thread at its latest call
	total  uint64
}

// add records the present counter of a thread, and returns the sum.
func (t *turns) add(thread int, count uint64) uint64 {
	if thread == t.thread {
		t.total += count - t.before
	}
	t.thread, t.before = thread, count
	return t.total
}
