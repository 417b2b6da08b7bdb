// Package fifo has two queues: a Queue of limited length in a ring buffer, and a List without a
// limit. The fabric providers use a Queue for posted buffers, and for sends whose completions were
// not polled. Package btl uses a List for the notifications of its caller.
//
//	items:  | 7 | 8 |   |   | 4 | 5 | 6 |      pushed behind 8, popped at 4
//	                          ^ head
//
// Push and Pop of a Queue do not check whether the queue is full or empty. The caller must check
// Len and Full before Push and Pop. One goroutine owns a Queue or a List.
package fifo
