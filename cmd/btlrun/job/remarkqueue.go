//go:build unix

package job

import (
	"fmt"
	"io"
	"sync"
)

// remarkBytesMax is the maximum size of the queued lines of one host's remote shell, in bytes.
const remarkBytesMax = pendingMax

// remarkQueue is an io.Writer of lines that writes to standard error on a goroutine of its own.
// Standard error may accept nothing for a long time, for example because a person has stopped the
// terminal with Ctrl-S. The queue then drops lines and counts them, and Write does not wait.
type remarkQueue struct {
	to    io.Writer
	label string        // text before the line that says how many lines were dropped
	done  chan struct{} // closed when all lines are written after close

	lock    sync.Mutex
	more    sync.Cond
	waiting []byte
	dropped int // lines that were dropped behind the waiting lines
	closed  bool
}

// newRemarkQueue starts a queue, whose goroutine ends after close was called and all lines were
// written.
func newRemarkQueue(to io.Writer, label string) *remarkQueue {
	q := &remarkQueue{to: to, label: label, done: make(chan struct{})}
	q.more.L = &q.lock
	go q.run()
	return q
}

// Write queues a line with its newline, or drops the line if too many bytes wait.
func (q *remarkQueue) Write(line []byte) (int, error) {
	q.lock.Lock()
	defer q.lock.Unlock()
	switch {
	case q.closed:
	case q.dropped > 0 || len(q.waiting)+len(line) > remarkBytesMax:
		q.dropped++
	default:
		q.waiting = append(q.waiting, line...)
		q.more.Signal()
	}
	return len(line), nil
}

// close lets the queue's goroutine end when all queued lines are written.
func (q *remarkQueue) close() {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.closed = true
	q.more.Signal()
}

// The method next waits for queued lines and returns all of them. A further line says how many
// lines were dropped behind them. After close, next returns nil as soon as the queue is empty.
func (q *remarkQueue) next() []byte {
	q.lock.Lock()
	defer q.lock.Unlock()
	for len(q.waiting) == 0 && !q.closed {
		q.more.Wait()
	}
	lines := q.waiting
	if q.dropped > 0 {
		lines = fmt.Appendf(lines, "%slines dropped here: %d (standard error accepted nothing)\n",
			q.label, q.dropped)
	}
	q.waiting, q.dropped = nil, 0
	return lines
}

// run writes the queued lines until the queue is closed and empty. Errors are ignored, because
// there is no other place to report them.
func (q *remarkQueue) run() {
	defer close(q.done)
	for lines := q.next(); lines != nil; lines = q.next() {
		_, _ = q.to.Write(lines)
	}
}
