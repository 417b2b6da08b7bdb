package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// linesMax is the largest number of lines that wait to be written to standard error.
	linesMax = 256
	// lastLines is the longest time for which the program waits at its end until the remaining lines
	// are written.
	lastLines = 5 * time.Second
)

// logger writes lines to standard error on a goroutine of its own. Standard error may accept
// nothing for a long time, for example because a person has stopped the terminal with Ctrl-S. A
// logger then drops lines and counts them, and its callers do not wait. Any goroutine may call the
// methods of a logger.
type logger struct {
	to    io.Writer
	queue chan []byte
	ended chan struct{} // closed when all lines are written

	lock    sync.Mutex // guards the next two fields
	closed  bool
	dropped uint64 // lines dropped since the latest line that says so
}

func newLogger(to io.Writer) *logger {
	l := &logger{to: to, queue: make(chan []byte, linesMax), ended: make(chan struct{})}
	go l.run()
	return l
}

// Write queues a piece of the progress bar, or drops it if too many lines wait.
func (l *logger) Write(b []byte) (int, error) {
	l.put(append([]byte(nil), b...))
	return len(b), nil
}

// line queues one line, or drops and counts the line if too many lines wait.
func (l *logger) line(text string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if !l.tryPut([]byte(text + "\n")) {
		l.dropped++
	}
}

func (l *logger) put(b []byte) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.tryPut(b)
}

// tryPut queues bytes, and returns false if that is not possible. The caller of tryPut holds the
// lock of the logger.
func (l *logger) tryPut(b []byte) bool {
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

// run writes the queued lines. Errors are ignored, because there is no other place to report them.
func (l *logger) run() {
	defer close(l.ended)
	for b := range l.queue {
		_, _ = l.to.Write(b)
		l.tellDropped()
	}
	l.tellDropped()
}

// tellDropped writes how many lines were dropped, if there are any.
func (l *logger) tellDropped() {
	l.lock.Lock()
	n := l.dropped
	l.dropped = 0
	l.lock.Unlock()
	if n > 0 {
		fmt.Fprintf(l.to, "btlstream: %d lines dropped here: standard error accepted nothing\n", n)
	}
}

// close waits until all lines are written, but no longer than lastLines. Lines that are written
// after close are dropped.
func (l *logger) close() {
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
