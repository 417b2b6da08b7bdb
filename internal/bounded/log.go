package bounded

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// logLinesMax is the largest number of lines that wait to be written to standard error.
	logLinesMax = 256
	// lastLines is the longest time for which the program waits at its end until the remaining lines
	// are written.
	lastLines = 5 * time.Second
)

// Log writes lines to standard error on a goroutine of its own. Standard error may accept nothing
// for a long time, for example because a person has stopped the terminal with Ctrl-S. While
// standard error accepts nothing, a Log drops and counts new lines, so that its callers do not
// wait. Any goroutine may call the methods of a Log.
type Log struct {
	to    io.Writer
	name  string
	queue chan []byte
	ended chan struct{} // closed when all lines are written

	lock    sync.Mutex // guards the next two fields
	closed  bool
	dropped uint64 // lines dropped since the latest line that says so
}

// NewLog returns a Log that writes to the argument "to". Each line begins with the name of the
// program.
func NewLog(to io.Writer, program string) *Log {
	l := &Log{to: to, name: program, queue: make(chan []byte, logLinesMax), ended: make(chan struct{})}
	go l.run()
	return l
}

// Write queues bytes, such as a part of a progress bar, or drops these bytes if too many lines
// wait.
func (l *Log) Write(b []byte) (int, error) {
	l.put(append([]byte(nil), b...))
	return len(b), nil
}

// Line queues one line, or drops and counts the line if too many lines wait.
func (l *Log) Line(text string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if !l.tryPut([]byte(l.name + ": " + text + "\n")) {
		l.dropped++
	}
}

func (l *Log) put(b []byte) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.tryPut(b)
}

// tryPut queues bytes to be written, and returns false if the queue is full or the Log is closed.
// The caller of tryPut holds the lock of the Log.
func (l *Log) tryPut(b []byte) bool {
	if l.closed {
		return false
	}
	select {
	case l.queue <- b:
		return true
	default:
		return false
	}
}

// run writes the queued lines. The method "run" ignores errors of writing to standard error,
// because a program has no other place to report these errors.
func (l *Log) run() {
	defer close(l.ended)
	for b := range l.queue {
		_, _ = l.to.Write(b)
		l.tellDropped()
	}
	l.tellDropped()
}

// tellDropped writes how many lines were dropped, if there are any.
func (l *Log) tellDropped() {
	l.lock.Lock()
	n := l.dropped
	l.dropped = 0
	l.lock.Unlock()
	if n > 0 {
		fmt.Fprintf(l.to, "%s: %d lines dropped here: standard error accepted nothing\n", l.name, n)
	}
}

// Close waits until all lines are written, but no longer than lastLines. Lines that are written
// after Close are dropped.
func (l *Log) Close() {
	l.lock.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.lock.Unlock()
	t := time.NewTimer(lastLines)
	defer t.Stop()
	select {
	case <-l.ended:
	case <-t.C:
	}
}
