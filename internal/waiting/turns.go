package waiting

// turns adds up what threads count each for itself, while they take turns: only what a thread has
// counted between two calls of its own, with no other's in between.
type turns struct {
	thread int
	before uint64 // of that thread, as of its latest call
	total  uint64
}

// add notes what a thread has counted by now, and returns the sum.
func (t *turns) add(thread int, count uint64) uint64 {
	if thread == t.thread {
		t.total += count - t.before
	}
	t.thread, t.before = thread, count
	return t.total
}
