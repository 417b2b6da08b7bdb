// Package fifo has two kinds of queues, a Queue of limited length (a ring buffer), and a List of
// unlimited length. The fabric providers use a Queue for posted receive buffers, and for sends
// whose completions were not polled yet. Package btl uses a List for notifications that the caller
// of the module has not fetched yet.
//
//	items   | 7 | 8 |   |   | 4 | 5 | 6 |      pushed behind 8 --> popped at 4
//	                          ^ head
//
// Push and Pop of a Queue do not check whether the queue is full or empty. The caller must check
// Full before Push, and Len before Pop. One goroutine owns a Queue or a List.
package fifo
