package waiting

// turns adds up the context switch counters of several threads that use a Policy one after
// another. The difference between two calls of the same thread is added, if no other thread
// has made a call in between.
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
