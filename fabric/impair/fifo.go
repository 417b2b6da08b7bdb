package impair

// fifo is a queue of fixed capacity. Its users look at count before pop, and never push more than
// the capacity (each says why it cannot).
type fifo[T any] struct {
	items []T
	head  int
	count int
}

func newFifo[T any](capacity int) fifo[T] { return fifo[T]{items: make([]T, capacity)} }

func (f *fifo[T]) push(v T) {
	i := f.head + f.count
	if i >= len(f.items) {
		i -= len(f.items)
	}
	f.items[i] = v
	f.count++
}

// front returns the oldest item; count must not be 0.
func (f *fifo[T]) front() *T { return &f.items[f.head] }

func (f *fifo[T]) pop() T {
	v := f.items[f.head]
	f.head++
	if f.head == len(f.items) {
		f.head = 0
	}
	f.count--
	return v
}
